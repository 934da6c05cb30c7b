package kernel

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// pickOne computes one element of an output by its definition: ok is false where it shows nothing.
func pickOne(dims []int, axes [][]Run, index []int) (place int, ok bool) {
	for i, runs := range axes {
		position := index[i]
		for _, r := range runs {
			if position >= r.N {
				position -= r.N
				continue
			}
			if r.From == Hole {
				return 0, false
			}
			place = place*dims[i] + r.From + position*r.Step
			break
		}
	}
	return place, true
}

// drawRuns draws a rule for an axis.
func drawRuns(r *rand.Rand, extent int) []Run {
	if r.IntN(3) == 0 {
		return Whole(extent)
	}
	var runs []Run
	for range 1 + r.IntN(3) {
		from := r.IntN(extent)
		switch r.IntN(5) {
		case 0:
			runs = append(runs, Run{Hole, r.IntN(3), 0})
		case 1:
			runs = append(runs, Run{from, r.IntN(4), 0})
		case 2:
			runs = append(runs, Run{from, from + 1, -1})
		case 3:
			runs = append(runs, Run{0, (extent + 1) / 2, 2})
		default:
			runs = append(runs, Run{from, extent - from, 1})
		}
	}
	return runs
}

// Any rule gives what its definition says, whole and in parts, and its gradient sums what shows an element.
func TestPickShowsWhatItsRunsSay(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 4))
	for range 2000 {
		dims, axes, extents := make([]int, r.IntN(5)), [][]Run{}, []int{}
		inCount, outCount := 1, 1
		for i := range dims {
			dims[i] = 1 + r.IntN(4)
			axes = append(axes, drawRuns(r, dims[i]))
			extents = append(extents, extentOf(axes[i]))
			inCount, outCount = inCount*dims[i], outCount*extents[i]
		}
		x, out, dx := make([]float64, inCount), make([]float64, outCount), make([]float64, inCount)
		for i := range x {
			x[i] = float64(i + 1)
		}
		want, sums := make([]float64, outCount), make([]float64, inCount)
		index := make([]int, len(dims))
		for i := range want {
			rest := i
			for axis := len(dims) - 1; axis >= 0; axis-- {
				index[axis], rest = rest%extents[axis], rest/extents[axis]
			}
			want[i] = -7
			if place, ok := pickOne(dims, axes, index); ok {
				want[i] = x[place]
				sums[place] += float64(i)
			}
		}
		p := NewPickPlan(dims, axes)
		n, apart := p.Iterations()
		cut := r.IntN(n + 1)
		Pick(p, out, x, -7, cut, n)
		Pick(p, out, x, -7, 0, cut)
		if !slices.Equal(out, want) {
			t.Fatalf("dims %v, runs %v: %v, want %v", dims, axes, out, want)
		}
		dout := make([]float64, outCount)
		for i := range dout {
			dout[i] = float64(i)
		}
		if apart {
			PickGrad(p, dx, dout, cut, n)
			PickGrad(p, dx, dout, 0, cut)
		} else {
			PickGrad(p, dx, dout, 0, n)
		}
		if !slices.Equal(dx, sums) {
			t.Fatalf("dims %v, runs %v: gradient %v, want %v", dims, axes, dx, sums)
		}
	}
}

func TestPickJoinsAxesThatItShowsWhole(t *testing.T) {
	p := NewPickPlan([]int{5, 6, 7, 8}, [][]Run{Whole(5), {{2, 3, 1}}, Whole(7), Whole(8)})
	if n, apart := p.Iterations(); n != 5 || !apart || p.run != 3*7*8 || len(p.axes) != 1 {
		t.Errorf("%d iterations, apart %v, runs of %d", n, apart, p.run)
	}
	if n := testing.AllocsPerRun(5, func() { Pick(p, make([]float32, 5*3*7*8)[:840], make([]float32, 1680), 0, 0, 5) }); n > 2 {
		t.Errorf("%v allocations", n)
	}
}
