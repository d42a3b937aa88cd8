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

// chiSquareScore returns how many standard deviations the sum of χ² statistics is above its mean,
// by the approximation of Wilson and Hilferty (1931).
func chiSquareScore(tables []*pairCounts) float64 {
	statistic, v := 0.0, 0.0
	for _, counts := range tables {
		total := 0
		for _, c := range counts {
			total += c
		}
		expected := float64(total) / float64(len(counts))
		for _, c := range counts {
			statistic += (float64(c) - expected) * (float64(c) - expected) / expected
		}
		v += float64(len(counts) - 1)
	}
	return (math.Cbrt(statistic/v) - 1 + 2/(9*v)) / math.Sqrt(2/(9*v))
}

// rowWords returns the rounding words of the elements of a row.
func rowWords(key Key, n int, hash func(uint32) uint32) []uint32 {
	w := make([]uint32, n)
	start, step := key.state()
	for i := range w {
		state := skip(start, step, i/blockSize) + step*uint32(i%groupSize)
		w[i] = hash(state)
		if i%blockSize >= groupSize {
			w[i] = w[i]<<16 | w[i]>>16
		}
	}
	return w
}

// pairCounts counts pairs of words in 16×16 bins of their upper bits.
type pairCounts [256]int

func (c *pairCounts) add(a, b uint32) { c[a>>28<<4|b>>28]++ }

// wordScores returns the scores of χ² tests of words and of pairs of words: neighbours at several
// distances in a row, and the same elements of two rows whose seeds, parameters or row numbers are
// neighbours. The statistic of each pair of rows is computed on its own and then added: in the
// counts of all rows, dependencies that differ from row to row would cancel.
func wordScores(hash func(uint32) uint32) map[string]float64 {
	const rows, n = 96, 1 << 14
	statistics := map[string][]*pairCounts{}
	count := func(name string) *pairCounts {
		c := &pairCounts{}
		statistics[name] = append(statistics[name], c)
		return c
	}
	for r := range rows {
		w := rowWords(RowKey(1, 0, r), n, hash)
		single := count("single words")
		for _, x := range w {
			single.add(x, x<<4)
		}
		for _, distance := range []int{1, 2, 15, 16, 17, 32, 48, 64, 256, 1024} {
			c := count(fmt.Sprintf("elements at distance %d", distance))
			for i := distance; i < n; i++ {
				c.add(w[i-distance], w[i])
			}
		}
		for name, key := range map[string]Key{
			"next row": RowKey(1, 0, r+1), "next parameter": RowKey(1, 1, r), "next seed": RowKey(2, 0, r), "highest bit of the seed": RowKey(1<<63|1, 0, r),
		} {
			c := count(name)
			for i, x := range rowWords(key, n, hash) {
				c.add(w[i], x)
			}
		}
		// The first words of many rows.
		inRow, inNext := count("first two elements of rows"), count("first elements of two rows")
		for parameter := range n {
			first := rowWords(RowKey(3, parameter, r), 2, hash)
			inRow.add(first[0], first[1])
			inNext.add(first[0], rowWords(RowKey(3, parameter, r+1), 1, hash)[0])
		}
	}
	scores := map[string]float64{}
	for name, counts := range statistics {
		scores[name] = chiSquareScore(counts)
	}
	return scores
}

func TestWords_AreUniformAndIndependent(t *testing.T) {
	for name, score := range wordScores(word) {
		if math.Abs(score) > threshold {
			t.Errorf("%s: χ² is %.1f standard deviations from its mean", name, score)
		}
	}
	// The statistics find a hash without its second round.
	weak := wordScores(func(state uint32) uint32 { return (state ^ state>>16) * firstFactor })
	worst := 0.0
	for _, score := range weak {
		worst = max(worst, score)
	}
	if worst < threshold {
		t.Errorf("a hash of one round passes: %v", weak)
	}
}

// The mean of many roundings of x is x, and the errors of neighbours are uncorrelated.
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
			var sum, products float64
			for r := range rows {
				if _, ok := k.quantizeInt16(dst, x, 4, RowKey(uint64(r), 1, 2)); !ok {
					t.Fatalf("a row of %v is refused", value)
				}
				previous := 0.0
				for _, v := range dst {
					e := float64(v) - value
					if math.Abs(e) >= 1 {
						t.Fatalf("%v is rounded to %d", value, v)
					}
					sum += e
					products += e * previous
					previous = e
				}
			}
			fraction, total := value-math.Floor(value), float64(rows*n)
			variance := fraction * (1 - fraction)
			if z := sum / math.Sqrt(total*variance); math.Abs(z) > threshold {
				t.Errorf("the mean error of %v is %.2g, %.1f standard deviations", value, sum/total, z)
			}
			if z := products / (variance * math.Sqrt(total)); math.Abs(z) > threshold {
				t.Errorf("the errors of neighbours of %v have the correlation %.2g, %.1f standard deviations", value, products/total/variance, z)
			}
		}
	})
}
