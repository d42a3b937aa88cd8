package lattice

import (
	"fmt"
	"math"
	"testing"
)

// The tests of this file use fixed keys. If the words were random, a threshold of 6.5 standard
// deviations would be exceeded with probability 8e-11; the tests compare about 200 statistics, so
// the chance that such a choice of keys fails is below 1e-7.
const threshold = 6.5

// chiSquareScore returns how many standard deviations the χ² statistic is above its mean, by the
// approximation of Wilson and Hilferty (1931).
func chiSquareScore(counts *pairCounts) float64 {
	total := 0
	for _, c := range counts {
		total += c
	}
	expected, statistic, v := float64(total)/float64(len(counts)), 0.0, float64(len(counts)-1)
	for _, c := range counts {
		statistic += (float64(c) - expected) * (float64(c) - expected) / expected
	}
	return (math.Cbrt(statistic/v) - 1 + 2/(9*v)) / math.Sqrt(2/(9*v))
}

// pairCounts counts pairs of words in 16×16 bins of their upper bits.
type pairCounts [256]int

func (c *pairCounts) add(a, b uint32) { c[a>>28<<4|b>>28]++ }

// wordScores returns the scores of χ² tests of words over keys: the words of two elements of a row
// at several distances, and of the same element of two rows whose seeds, parameters or row numbers
// are neighbours. A key gives one pair, because the words of one row are a function of two of them.
func wordScores(wordOf func(start, step uint32, i int) uint32) map[string]float64 {
	const parameters, rows = 1 << 10, 64
	statistics := map[string]*pairCounts{}
	count := func(name string, a, b uint32) {
		if statistics[name] == nil {
			statistics[name] = &pairCounts{}
		}
		statistics[name].add(a, b)
	}
	for parameter := range parameters {
		for r := range rows {
			of := func(k Key, i int) uint32 {
				start, step := k.state()
				return wordOf(start, step, i)
			}
			key := RowKey(3, parameter, r)
			for _, first := range []int{0, 5} {
				w := of(key, first)
				count("single words", w, w<<4)
				for _, distance := range []int{1, 2, 3, 15, 16, 17, 32, 48, 1024, 4095, 1 << 16, 1<<20 + 1<<16} {
					count(fmt.Sprintf("elements at distance %d", distance), w, of(key, first+distance))
				}
				for name, key := range map[string]Key{
					"next row": RowKey(3, parameter, r+1), "next parameter": RowKey(3, parameter+1, r),
					"next seed": RowKey(4, parameter, r), "highest bit of the seed": RowKey(1<<63|3, parameter, r),
				} {
					count(name, w, of(key, first))
				}
			}
		}
	}
	scores := map[string]float64{}
	for name, counts := range statistics {
		scores[name] = chiSquareScore(counts)
	}
	return scores
}

func TestWords_AreUniformAndPairwiseIndependent(t *testing.T) {
	for name, score := range wordScores(wordOf) {
		if math.Abs(score) > threshold {
			t.Errorf("%s: χ² is %.1f standard deviations from its mean", name, score)
		}
	}
	for name, weak := range map[string]func(start, step uint32, i int) uint32{
		"a step of 16 bits":          func(start, step uint32, i int) uint32 { return start + step>>16*uint32(i) },
		"steps without their origin": func(_, step uint32, i int) uint32 { return step * uint32(i+1) },
	} {
		worst := 0.0
		for _, score := range wordScores(weak) {
			worst = max(worst, score)
		}
		if worst < threshold {
			t.Errorf("words with %s pass", name)
		}
	}
}

// meanScore returns how many standard deviations the mean of x is from 0, by the deviation of x.
func meanScore(x []float64) float64 {
	var sum, squares float64
	for _, v := range x {
		sum += v
		squares += v * v
	}
	return sum / math.Sqrt(squares)
}

// The mean of many roundings of x is x. The variance of the sum of a row's errors is that of
// independent errors, so the errors of any two elements are uncorrelated on average; those of
// neighbours are uncorrelated by themselves.
func TestQuantize_IsUnbiased(t *testing.T) {
	forEachImplementation(t, func(t *testing.T, k *kernels) {
		const n = 64
		rows := 1 << 14
		if testing.Short() {
			rows = 1 << 12
		}
		x, dst := make([]float32, n), make([]int16, n)
		for _, value := range []float64{0.001, 0.1, 0.25, 0.5, 0.75, 0.9, 0.999, 1.3, 2.5, -0.001, -0.1, -0.5, -0.9, -7.7, 100.3, -100.7, 1000.625, -2000.3} {
			value = float64(float32(value))
			for i := range x {
				x[i] = float32(value / 4)
			}
			fraction := value - math.Floor(value)
			variance := fraction * (1 - fraction)
			var sums, excesses, products []float64
			for r := range rows {
				if _, ok := k.quantizeInt16(dst, x, 4, RowKey(uint64(r), 1, 2)); !ok {
					t.Fatalf("a row of %v is refused", value)
				}
				var sum, product, previous float64
				for _, v := range dst {
					e := float64(v) - value
					if math.Abs(e) >= 1 {
						t.Fatalf("%v is rounded to %d", value, v)
					}
					sum += e
					product += e * previous
					previous = e
				}
				sums, excesses, products = append(sums, sum), append(excesses, sum*sum-n*variance), append(products, product)
			}
			scores := map[string]float64{"error": meanScore(sums)}
			if variance > 0.08 { // else few rows decide, and their number is far from normal
				scores["excess of the squares of sums of errors"], scores["product of neighbours' errors"] = meanScore(excesses), meanScore(products)
			}
			for name, z := range scores {
				if math.Abs(z) > threshold {
					t.Errorf("%v: the mean %s is %.1f standard deviations from 0", value, name, z)
				}
			}
		}
	})
}
