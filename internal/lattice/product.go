package lattice

import "fmt"

// MaxRecords is the number of records whose contributions may be added modulo 2^32 before the sum
// is read: MaxRecords·Bound ≤ 2^31−1, and (MaxRecords+1)·Bound = 2^31 is read as −2^31.
const MaxRecords = (1<<31 - 1) / Bound

// Product is the integer product AᵀD of the rows a_k of A and d_k of D: the sum over rows of
// a_k ⊗ d_k. RowsPerRecord rows, one after the other, are one record's contribution.
//
// Elements of a and d are in [-2^14, 2^14]. The caller has checked in integers that the
// contribution of each record has a norm of at most Bound. Then every element of the sum over
// MaxRecords records is in the range of int32. Sums of them modulo 2^32 are therefore read
// right, whatever wraps on the way: the result is exact, and its bits do not depend on the order
// of the rows, on the shape of the blocks or on the number of shares.
type Product struct {
	// A is K×M, D is K×N, both stored by rows without gaps.
	M, N, K       int
	RowsPerRecord int
	// LDC is the distance between rows of the M×N sum.
	LDC int
}

// Workspace is the scratch memory of one thread. Only one call at a time may use it.
type Workspace struct{}

// NewWorkspace allocates the scratch memory for products and Gram matrices of any shape.
func NewWorkspace() *Workspace { return &Workspace{} }

// Run adds one of several shares of AᵀD to sum. It adds the products of at most MaxRecords
// records modulo 2^32, extends their signs and adds them to sum. Together the shares update
// every element once; no share accesses memory that another writes. ws belongs to the calling
// thread.
func (p *Product) Run(sum []int64, a, d []int16, ws *Workspace, share, shares int) {
	p.run(active, sum, nil, a, d, ws, share, shares)
}

// RunModulo is Run without widening: it adds AᵀD to sum modulo 2^32. The caller widens the sum
// before it contains more than MaxRecords records.
func (p *Product) RunModulo(sum []int32, a, d []int16, ws *Workspace, share, shares int) {
	p.run(active, nil, sum, a, d, ws, share, shares)
}

func (p *Product) run(_ *kernels, sum []int64, part []int32, a, d []int16, ws *Workspace, share, shares int) {
	p.check(max(len(sum), len(part)), len(a), len(d), share, shares)
	rows := MaxRecords * p.RowsPerRecord
	for i := share * p.M / shares; i < (share+1)*p.M/shares; i++ {
		for j := range p.N {
			for k := 0; k < p.K; k += rows {
				v := p.element(a, d, i, j, k, min(k+rows, p.K))
				if sum != nil {
					sum[i*p.LDC+j] += int64(v)
				} else {
					part[i*p.LDC+j] += v
				}
			}
		}
	}
}

func (p *Product) element(a, d []int16, i, j, from, to int) (s int32) {
	for k := from; k < to; k++ {
		s += int32(a[k*p.M+i]) * int32(d[k*p.N+j])
	}
	return s
}

func (p *Product) check(sum, a, d, share, shares int) {
	switch {
	case p.M < 0 || p.N < 0 || p.K < 0 || p.LDC < p.N:
		panic(fmt.Sprintf("lattice: invalid product %+v", *p))
	case p.RowsPerRecord < 1 || p.K%p.RowsPerRecord != 0:
		panic(fmt.Sprintf("lattice: %d rows are not whole records of %d rows", p.K, p.RowsPerRecord))
	case uint(share) >= uint(shares):
		panic(fmt.Sprintf("lattice: share %d must be below the number of shares, %d", share, shares))
	case p.M > 0 && p.N > 0 && (sum < (p.M-1)*p.LDC+p.N || a < p.K*p.M || d < p.K*p.N):
		panic(fmt.Sprintf("lattice: the product %+v does not fit slices of %d, %d and %d elements", *p, sum, a, d))
	}
}
