package nn

import (
	"cmp"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// An unrolled is what the gradient of one layer and direction computes for all steps and rows: the gradients of a and of b, which differ for GRU, and h before
// each step.
type unrolled struct{ ofInput, ofState, before *tensor.Tensor }

// back computes the gradients of one step of a row: dh and dc become those of the state before it, but for what comes through b. h and c are the state before.
func (r *reading[T]) back(g, more, h, c, dh, dc, da, db []T) {
	n := r.hidden
	switch r.mode {
	case "LSTM":
		for k := range n {
			i, f, w, o, t := g[k], g[n+k], g[2*n+k], g[3*n+k], tanh(more[k])
			d := dc[k] + T(dh[k]*o*(1-t*t))
			da[k], da[n+k], da[2*n+k], da[3*n+k] = d*w*i*(1-i), d*c[k]*f*(1-f), d*i*(1-w*w), dh[k]*t*o*(1-o)
			dc[k], dh[k] = d*f, 0
		}
		copy(db, da)
	case "GRU":
		for k := range n {
			reset, z, w := g[k], g[n+k], g[2*n+k]
			d := dh[k] * (1 - z) * (1 - w*w)
			da[k], da[n+k], da[2*n+k] = d*more[k]*reset*(1-reset), dh[k]*(h[k]-w)*z*(1-z), d
			db[k], db[n+k], db[2*n+k] = da[k], da[n+k], d*reset
			dh[k] *= z
		}
	default:
		for k := range n {
			slope := 1 - g[k]*g[k]
			if r.mode == "RNN_RELU" {
				if slope = 0; g[k] > 0 {
					slope = 1
				}
			}
			da[k] = dh[k] * slope
			db[k], dh[k] = da[k], 0
		}
	}
}

func bindRNNGrad[T tensor.Float](f *networkForm) opkit.Binder {
	return func(b *ops.Binding) (ops.Kernel, error) {
		if reserve := b.In("Reserve"); reserve != nil {
			r := readingOf[T](b, f, b.In("Out"), reserve)
			return b.Loops(r.backward(f)...)
		}
		r := readingOf[T](b, f, nil, nil) // which computes it again
		return b.Loops(append(r.forward(nil), r.backward(f)...)...)
	}
}

// backward returns the loops that go back through the layers.
func (r *reading[T]) backward(f *networkForm) []ops.Loop {
	const grad = program.GradSuffix
	b, dtype, places := r.b, tensor.Of[T](), r.steps*r.batch
	dout, dlast, dinput, dfirst := b.In("Out"+grad), tensorsOf(f.last, grad, b.Ins), b.Out("Input"+grad), tensorsOf(f.first, grad, b.Outs)
	dweights := b.Outs(cmp.Or(r.packed, f.weights[0]) + grad)
	u := unrolled{b.Scratch(dtype, places*r.gates), b.Scratch(dtype, places*r.gates), b.Scratch(dtype, places*r.hidden)}
	dh, dc, through := b.Scratch(dtype, r.batch*r.hidden), b.Scratch(dtype, r.batch*r.hidden), b.Scratch(dtype, r.batch*r.hidden)
	step := b.Scratch(dtype, r.batch*r.gates)
	grads := [2]*tensor.Tensor{b.Scratch(dtype, r.between()), b.Scratch(dtype, r.between())} // of what two layers give
	work := 0
	for layer := range r.layers {
		wide := max(r.width(layer), r.hidden)
		work = max(work, kernel.GemmWorkspace(max(places, r.batch), wide, r.gates), kernel.GemmWorkspace(r.gates, wide, places))
	}
	memory := b.Scratch(dtype, b.Parts()*work)
	loops := []ops.Loop{{N: 1, Apart: true, Run: func(int, int, int) error {
		if top := tensor.Data[T](grads[(r.layers-1)%2]); dout != nil {
			copy(top, tensor.Data[T](dout))
		} else {
			clear(top)
		}
		return nil
	}}}
	for layer := r.layers - 1; layer >= 0; layer-- {
		for direction := range r.directions {
			index, width := layer*r.directions+direction, r.width(layer)
			loops = append(loops, ops.Loop{N: r.batch, Apart: true, Run: func(part, from, to int) error {
				return r.unroll(index, from, to, u, tensor.Data[T](grads[layer%2]), dlast, dfirst, tensor.Data[T](dh), tensor.Data[T](dc), tensor.Data[T](step), tensor.Data[T](through), ops.Part(tensor.Data[T](memory), part, work))
			}}, ops.Loop{N: 1, Apart: true, Run: func(part, _, _ int) error {
				space := ops.Part(tensor.Data[T](memory), part, work)
				da, db := tensor.Data[T](u.ofInput), tensor.Data[T](u.ofState)
				for k, from := range [][]T{da, db, da, db} {
					to := r.weightIn(dweights, index, k)
					switch {
					case to == nil:
					case k == 0:
						kernel.Gemm(true, false, r.gates, width, places, 1, from, r.gates, r.read(layer), width, 0, to, width, space)
					case k == 1:
						kernel.Gemm(true, false, r.gates, r.hidden, places, 1, from, r.gates, tensor.Data[T](u.before), r.hidden, 0, to, r.hidden, space)
					default:
						sumOfRows(to, from)
					}
				}
				var to []T
				if layer > 0 {
					to = tensor.Data[T](grads[(layer-1)%2])
				} else if dinput != nil {
					to = tensor.Data[T](dinput)
				}
				if to != nil {
					kernel.Gemm(false, false, places, width, r.gates, 1, da, r.gates, r.weight(index, 0), width, T(min(direction, 1)), to, width, space)
				}
				return nil
			}})
		}
		if r.drops > 0 && layer > 0 {
			loops = append(loops, ops.Loop{N: r.between(), Apart: true, Run: func(_, from, to int) error {
				d := tensor.Data[T](grads[(layer-1)%2])[from:to]
				kernel.DropoutUpscale(d, d, r.mask(layer - 1)[from:to], r.drops)
				return nil
			}})
		}
	}
	return loops
}

// sumOfRows adds up the rows of a matrix.
func sumOfRows[T tensor.Float](to, rows []T) {
	clear(to)
	for ; len(rows) >= len(to) && len(to) > 0; rows = rows[len(to):] {
		for k, v := range rows[:len(to)] {
			to[k] += v
		}
	}
}

// unroll goes back through the steps of rows [from, to) of a layer and direction. dgiven is the gradient of what the layer gives.
func (r *reading[T]) unroll(index, from, to int, u unrolled, dgiven []T, dlast, dfirst []*tensor.Tensor, dh, dc, step, through, space []T) error {
	layer, direction, n := index/r.directions, index%r.directions, r.hidden
	states := func(list []*tensor.Tensor, kind int) []T {
		if kind >= len(list) || list[kind] == nil {
			return nil
		}
		return tensor.Data[T](list[kind])[index*r.batch*n:][:r.batch*n]
	}
	for kind, d := range [][]T{dh, dc} {
		if last := states(dlast, kind); last != nil {
			copy(d[from*n:to*n], last[from*n:])
		} else {
			clear(d[from*n : to*n])
		}
	}
	da, db, before := tensor.Data[T](u.ofInput), tensor.Data[T](u.ofState), tensor.Data[T](u.before)
	gates, more, given := r.gatesAt(index), r.moreAt(index), r.given(layer)
	for k := r.steps - 1; k >= 0; k-- {
		for row := from; row < to; row++ {
			length, err := r.lengthOf(row)
			if err != nil {
				return err
			}
			place := k*r.batch + row
			if k >= length {
				clear(da[place*r.gates:][:r.gates])
				clear(db[place*r.gates:][:r.gates])
				clear(before[place*n:][:n])
				clear(step[row*r.gates:][:r.gates])
				continue
			}
			place = r.at(direction, k, length)*r.batch + row
			h, c := r.hidden0(index, 0)[row*n:][:n], []T(nil)
			if r.states() > 1 {
				c = r.hidden0(index, 1)[row*n:][:n]
			}
			if k > 0 {
				earlier := r.at(direction, k-1, length)*r.batch + row
				h, c = given[(earlier*r.directions+direction)*n:][:n], more[earlier*n:][:n]
			}
			copy(before[place*n:][:n], h)
			own := dh[row*n:][:n]
			for i, d := range dgiven[(place*r.directions+direction)*n:][:n] {
				own[i] += d
			}
			r.back(gates[place*r.gates:][:r.gates], more[place*n:][:n], h, c, own, dc[row*n:][:n], da[place*r.gates:][:r.gates], db[place*r.gates:][:r.gates])
			copy(step[row*r.gates:][:r.gates], db[place*r.gates:])
		}
		kernel.Gemm(false, false, to-from, n, r.gates, 1, step[from*r.gates:to*r.gates], r.gates, r.weight(index, 1), n, 0, through[from*n:to*n], n, space)
		for i := from * n; i < to*n; i++ {
			dh[i] += through[i]
		}
	}
	for kind, d := range [][]T{dh, dc} {
		if first := states(dfirst, kind); first != nil {
			copy(first[from*n:to*n], d[from*n:])
		}
	}
	return nil
}
