package nn

import (
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// A groupNorm normalises groups of channels of an image by their own statistics: group_norm and instance_norm.
type groupNorm struct {
	name, doc      string
	mean, variance string // output slots
	meanDoc        string
	varianceDoc    string
	attrs          []ops.Attr
	inverse        bool // the slot variance holds 1/sqrt(variance + epsilon)
	single         bool // each channel is a group, and statistics have one axis
}

func init() {
	epsilon := ops.Attr{Name: "epsilon", Doc: "added to the variance, at least 0", Default: float32(1e-5)}
	groupNorm{
		name: "group_norm",
		doc: "Normalises groups of neighbouring channels of each image (Wu and He 2018): Y = (X - Mean)/sqrt(Variance + epsilon)*Scale + Bias, with the " +
			"statistics of the group.",
		mean: "Mean", meanDoc: "[N, groups]", variance: "Variance", varianceDoc: "[N, groups], of the population",
		attrs: []ops.Attr{epsilon, {Name: "groups", Doc: "into how many groups the channels are divided evenly", Kind: int32(0)}, dataFormatAttr("data_layout")},
	}.register()
	groupNorm{
		name: "instance_norm",
		doc:  "Normalises each channel of each image by its own statistics (Ulyanov et al. 2016): Y = (X - mean)/sqrt(variance + epsilon)*Scale + Bias.",
		mean: "SavedMean", meanDoc: "[N*C]", variance: "SavedVariance", varianceDoc: "[N*C], 1/sqrt(variance of the population + epsilon)",
		attrs: []ops.Attr{epsilon}, inverse: true, single: true,
	}.register()
}

func (g groupNorm) register() {
	opkit.Register(ops.Def{
		Type: g.name, Doc: g.doc,
		Inputs: []ops.Slot{
			{Name: "X", Doc: "float [N, C, ...], or [N, ..., C]"},
			{Name: "Scale", Doc: "[C]; ones when absent", Dispensable: true},
			{Name: "Bias", Doc: "[C]; zeros when absent", Dispensable: true}},
		Outputs: []ops.Slot{
			{Name: "Y", Doc: "of the shape and type of X"},
			{Name: g.mean, Doc: g.meanDoc, Intermediate: true},
			{Name: g.variance, Doc: g.varianceDoc, Intermediate: true}},
		Attrs:     g.attrs,
		Infer:     g.infer,
		Cost:      opkit.PerElement(8),
		Bind:      opkit.BindFloats("X", bindGroupNorm[float32](g), bindGroupNorm[float64](g)),
		MixesRows: opkit.RowsOnlyIn("X"),
		InPlace:   map[string]string{"Y": "X"},
	}, opkit.Gradient{
		Doc: "with h the normalised X, g = dY*Scale and means over a group, dBias = sum(dY), dScale = sum(dY*h), " +
			"dX = (g - mean(g) - h*mean(g*h))/sqrt(variance + epsilon).",
		Inputs:  []string{"X", "Scale", "Bias"},
		Outputs: []string{g.mean, g.variance},
		From:    []string{"Y"},
		Wrt:     []string{"X", "Scale", "Bias"},
		StandIn: map[string]string{"Bias": "Scale"},
		Cost:    opkit.PerElement(12),
		Bind:    opkit.BindFloats("X", bindGroupNormGrad[float32](g), bindGroupNormGrad[float64](g)),
	})
}

// last reports whether the channels come last.
func (g groupNorm) last(a attributes, dims []int64) bool {
	return !g.single && channelsLast(a, "data_layout") && len(dims) > 2
}

func (g groupNorm) infer(s *ops.Shapes) error {
	x := s.In("X")
	if err := checkNorm(s); err != nil {
		return err
	}
	if len(x.Dims) < 2 {
		return s.Errorf("X", "rank 2 or more")
	}
	if !g.single {
		if err := checkLayout(s, "data_layout"); err != nil {
			return err
		}
	}
	dims := firstly(x.Dims, g.last(s, x.Dims))
	for _, slot := range []string{"Scale", "Bias"} {
		if s.Has(slot) && !ops.Compatible(s.In(slot).Dims, dims[1:2]) {
			return s.Errorf(slot, "dims [%d], one number for each channel of X %v", dims[1], x.Dims)
		}
	}
	s.Like("Y", "X")
	statistics := []int64{ops.Product(dims[:2])}
	if !g.single {
		groups := s.Int("groups")
		if groups < 1 || dims[1] >= 0 && groups > dims[1] {
			return opkit.BadAttr(s, "groups", "1 to %d, the number of channels", dims[1])
		}
		if dims[1] >= 0 && dims[1]%groups != 0 {
			return opkit.UnsupportedAttr(s, "groups", "a divisor of the number of channels: groups of different sizes are not there yet")
		}
		statistics = []int64{dims[0], groups}
	}
	for _, slot := range []string{g.mean, g.variance} {
		s.Set(slot, x.DType, statistics...)
	}
	return nil
}

// shape says how the channels of images, of these dims with the channels first, are normalised. An image without elements has no rows.
func (g groupNorm) shape(b *ops.Binding, dims []int64) (shape *kernel.GroupNormShape, images, rows int) {
	n, c, plane := channelsOf(dims)
	shape = &kernel.GroupNormShape{Groups: c, Plane: plane, Epsilon: b.Float("epsilon"), Inverse: g.inverse}
	if !g.single {
		shape.Groups = int(b.Int("groups"))
	}
	if n*c*plane == 0 {
		return shape, 0, 0
	}
	shape.Channels = c / shape.Groups
	return shape, n, n * shape.Groups
}

func bindGroupNorm[T tensor.Float](g groupNorm) opkit.Binder {
	return func(b *ops.Binding) (ops.Kernel, error) {
		dims := b.In("X").Dims()
		a := &arranged[T]{b: b, last: g.last(b, dims)}
		shape, _, rows := g.shape(b, firstly(dims, a.last))
		scale, bias := b.In("Scale"), b.In("Bias")
		x, y := a.in("X"), a.out("Y")
		if y == nil {
			y = b.Scratch(x.DType(), x.Len())
		}
		mean, variance := orScratch[T](b, g.mean, rows), orScratch[T](b, g.variance, rows)
		return a.loops(ops.Loop{N: rows, Whole: []string{"Scale", "Bias"}, Run: func(_, from, to int) error {
			kernel.GroupNorm(shape, tensor.Data[T](y), tensor.Data[T](mean), tensor.Data[T](variance), tensor.Data[T](x), opkit.Data[T](scale),
				opkit.Data[T](bias), from, to)
			return nil
		}})
	}
}

func bindGroupNormGrad[T tensor.Float](g groupNorm) opkit.Binder {
	return func(b *ops.Binding) (ops.Kernel, error) {
		dims := b.In("X").Dims()
		a := &arranged[T]{b: b, last: g.last(b, dims)}
		shape, images, rows := g.shape(b, firstly(dims, a.last))
		scale, mean, variance := b.In("Scale"), b.In(g.mean), b.In(g.variance)
		x, dy := a.in("X"), a.in(program.GradName("Y"))
		dx, dscale, dbias := a.out(program.GradName("X")), b.Out(program.GradName("Scale")), b.Out(program.GradName("Bias"))
		var loops []ops.Loop
		if dscale != nil || dbias != nil {
			reads := []string{"X", g.mean, g.variance, "Y@GRAD"}
			loops = append(loops, ops.Loop{N: shape.Groups * max(shape.Channels, 1), Apart: true, Reads: reads, Whole: reads,
				Writes: []string{"Scale@GRAD", "Bias@GRAD"}, Run: func(_, from, to int) error {
					kernel.GroupNormParamGrad(shape, opkit.Data[T](dscale), opkit.Data[T](dbias), tensor.Data[T](x), tensor.Data[T](mean),
						tensor.Data[T](variance), tensor.Data[T](dy), images, from, to)
					return nil
				}})
		}
		if dx != nil {
			loops = append(loops, ops.Loop{N: rows, Reads: []string{"X", "Scale", g.mean, g.variance, "Y@GRAD"}, Whole: []string{"Scale"},
				Writes: []string{"X@GRAD"}, Run: func(_, from, to int) error {
					kernel.GroupNormGrad(shape, tensor.Data[T](dx), tensor.Data[T](x), opkit.Data[T](scale), tensor.Data[T](mean),
						tensor.Data[T](variance), tensor.Data[T](dy), from, to)
					return nil
				}})
		}
		return a.loops(loops...)
	}
}
