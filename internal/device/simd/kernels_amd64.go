//go:build !noasm

package simd

import "golang.org/x/sys/cpu"

// assembly lists the implementations that this processor can run.
func assembly() []*kernels {
	x := &cpu.X86
	if !(x.HasAVX2 && x.HasFMA && x.HasBMI2) {
		return nil
	}
	avx2 := &kernels{
		name: "avx2",
		mr:   6, nr: 16,
		tileRows: tileRowsAVX2, tileCols: tileColsAVX2,
		prefetchRows: prefetchRowsAVX2,
		packRows:     packRowsAVX2, transpose8: transpose8AVX2,
		widenBFloat16: widenBFloat16AVX2, widenFloat16: widenFloat16AVX2,
		add:         addAVX2,
		mul:         mulAVX2,
		scale:       scaleAVX2,
		axpy:        axpyAVX2,
		relu:        reluAVX2,
		reluGrad:    reluGradAVX2,
		exp:         expAVX2,
		tanh:        tanhAVX2,
		tanhGrad:    tanhGradAVX2,
		sigmoid:     sigmoidAVX2,
		sigmoidGrad: sigmoidGradAVX2,
		gelu:        geluAVX2,
		geluGrad:    geluGradAVX2,
		softmaxGrad: softmaxGradAVX2,

		normalize: normalizeAVX2, normalizeGrad: normalizeGradAVX2, deviations: deviationsAVX2,

		sumRows:      sumRowsAVX2,
		addToRows:    addToRowsAVX2,
		lstmStep:     lstmStepAVX2,
		lstmSignals:  lstmSignalsAVX2,
		dot:          dotAVX2,
		sum:          sumAVX2,
		sumSquares:   sumSquaresAVX2,
		maximum:      maximumAVX2,
		colSums:      colSumsAVX2,
		copyTaps:     [2]copyTapFunc{copyTap1AVX2, copyTap2AVX2},
		maxPoolRows:  [2]maxPoolRowsFunc{maxPoolRows1AVX2, maxPoolRows2AVX2},
		unfold:       unfoldAVX2,
		fold:         foldAVX2,
		maxTaps:      maxTapsAVX2,
		addToMaxTaps: addToMaxTapsAVX2,
		sumTaps:      sumTapsAVX2,
		sumTaps2:     sumTaps2AVX2,
		winograd: [2]winogradKernels{
			{winogradFilters3AVX2, winogradImage3AVX2, winogradSignal3AVX2, winogradResult3AVX2, winogradGradients3AVX2},
			{winogradFilters5AVX2, winogradImage5AVX2, winogradSignal5AVX2, winogradResult5AVX2, winogradGradients5AVX2},
		},
		fmaPeak: fmaPeakAVX2,
	}
	if !x.HasF16C {
		avx2.widenFloat16 = pureGo.widenFloat16
	}
	if !(x.HasAVX512F && x.HasAVX512DQ && x.HasAVX512BW && x.HasAVX512VL) {
		return []*kernels{avx2}
	}
	avx512 := *avx2
	avx512.name = "avx512"
	avx512.mr, avx512.nr, avx512.exactRead = 12, 32, true
	avx512.tileRows, avx512.tileCols = tileRowsAVX512, tileColsAVX512
	avx512.exp, avx512.tanh, avx512.sigmoid = expAVX512, tanhAVX512, sigmoidAVX512
	avx512.gelu, avx512.geluGrad = geluAVX512, geluGradAVX512
	avx512.lstmStep, avx512.lstmSignals = lstmStepAVX512, lstmSignalsAVX512
	avx512.fmaPeak = fmaPeakAVX512
	return []*kernels{avx2, &avx512}
}
