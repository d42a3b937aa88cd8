package defaults

import (
	"fmt"
	"math"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
)

// The constants of the rule for pictures. docs/defaults.md has their evidence.
const (
	pictureSteps      = 400
	morePictureSteps  = 800  // at most, where more steps reach further
	picturePasses     = 75   // over few records
	pictureLot        = 1024 // the largest, which limits the time
	convolutionSignal = 1000 // μ·n from which convolutions pay
	convolutionClip   = 0.1  // C
	convolutionScale  = 0.12 // of the learning rate
	convolutionRate   = 3    // the highest
	pixelScale        = 0.17 // S of a linear network
	pixelClip         = 0.1  // C
)

// ForPictures returns the settings for pictures of 24 to 64 pixels a side. Linear reports whether the
// network is linear rather than convolutional.
//
// A convolutional network learns with momentum: its many weights start at values that Adam, for which
// noise and signal are equally long steps, moves away from. After T lots of rate η and clip bound C the
// noise in a weight is about η·C·T/(μ·n), for lots of any size. So η grows with μ·n/T. From μ·n = 10,000 on, η
// would exceed the highest rate, and T grows in its place.
func ForPictures(f Facts, fixed Fixed) (s Settings, linear bool) {
	signal := PrivacyParameter(f.Epsilon, f.Delta) * float64(f.Records)
	linear = fixed.Linear || !fixed.Hidden && signal < convolutionSignal
	lot, steps := f.Records, pictureSteps
	if !linear {
		steps = 10 * int(min(morePictureSteps, max(pictureSteps, convolutionScale*signal/convolutionRate))/10)
		lot = min(picturePasses*f.Records/steps, pictureLot)
	}
	s.Lot, s.Steps = fitLots(f.Records, max(1, min(lot, f.Records)), steps, fixed)
	s.Why = Reasons{
		Model: fmt.Sprintf("μ·n = %s, and convolutions pay from %d", round(signal), convolutionSignal),
		Lot:   whyLot(f.Records, s.Lot, fmt.Sprintf("%d passes over the data in %d lots, at most %d pictures a lot", picturePasses, steps, pictureLot)),
		Steps: whySteps(fixed, fmt.Sprintf("%d, and up to %d where the rate would exceed %d", pictureSteps, morePictureSteps, convolutionRate)),
		Clip:  "by measurements on pictures",
	}
	if linear {
		s.Optimizer, s.Average, s.Clip = "adam", tableAverage, pixelClip
		s.Why.Steps = whySteps(fixed, "by measurements on pictures")
		s.LearningRate = number.TwoDigits(pixelScale / math.Sqrt(float64(s.Steps)))
		s.Why.Optimizer, s.Why.LearningRate, s.Why.Average = "its steps do not depend on the clip bound", whyRate(pixelScale, s.Steps), whyAverage(s.Average)
		return s, linear
	}
	s.Optimizer, s.Clip = "momentum", convolutionClip
	if fixed.Clip > 0 {
		s.Clip = fixed.Clip
	}
	s.LearningRate = number.TwoDigits(min(convolutionRate, convolutionScale*signal/float64(s.Steps)) * convolutionClip / s.Clip)
	s.Why.Optimizer = "Adam moves many weights away from their start by noise"
	s.Why.LearningRate = fmt.Sprintf("grows with μ·n/lots; μ·n = %s", round(signal))
	return s, linear
}
