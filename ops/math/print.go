package math

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// mostPrinted bounds the elements of a tensor that one line shows, whatever summarize says.
const mostPrinted = 1000

func init() {
	show := func(name, what string) ops.Attr {
		return ops.Attr{Name: name, Doc: "whether the line has " + what, Default: true}
	}
	ops.Register(ops.Def{
		Type:   "print",
		Effect: true,
		Doc: "Copies, Out = In, and writes a line about In to the log of the run. A gradient of it writes one about the gradient. Each trainer of a cluster writes about its part of the batch. " +
			"A line shows at most 1000 elements, also where Fluid shows all.",
		Inputs:  in("In", "any type"),
		Outputs: []ops.Slot{{Name: "Out", Doc: "of the shape and type of In", Dispensable: true}},
		Attrs: []ops.Attr{
			{Name: "first_n", Doc: "how many runs write a line; below 1 for all. A batch of another shape counts anew", Default: int32(-1)},
			{Name: "message", Doc: "what the line begins with", Default: ""},
			{Name: "summarize", Doc: "the most elements that the line shows; below 0 for 1000", Default: int32(20)},
			show("print_tensor_name", "the name of the variable"), show("print_tensor_type", "the element type"), show("print_tensor_shape", "the dims"),
			show("print_tensor_layout", "the layout, which is NCHW always"), show("print_tensor_lod", "the offsets of sequences"),
			{Name: "print_phase", Doc: "FORWARD, BACKWARD or BOTH: which of In and its gradient are written about", Default: "BOTH", Check: checkPhase},
			{Name: "is_forward", Doc: "whether In is no gradient", Default: true}},
		Infer:    func(s *ops.Shapes) error { s.Like("Out", "In"); return nil },
		Gradient: printGradient,
		Bind: func(b *ops.Binding) (ops.Kernel, error) {
			switch b.In("In").DType() {
			case tensor.Float32:
				return bindPrint[float32](b)
			case tensor.Float64:
				return bindPrint[float64](b)
			case tensor.Int64:
				return bindPrint[int64](b)
			case tensor.Int32:
				return bindPrint[int32](b)
			}
			return bindPrint[bool](b)
		},
	})

	ops.Register(ops.Def{
		Type:   "assert",
		Effect: true,
		Doc:    "Ends the step with an error that shows the values of Data, unless Cond is true. Each trainer of a cluster checks its part of the batch.",
		Inputs: []ops.Slot{{Name: "Cond", Doc: "bool, one element"}, {Name: "Data", Doc: "what the error shows", Duplicable: true, Dispensable: true}},
		Attrs:  []ops.Attr{{Name: "summarize", Doc: "the most elements of each variable that the error shows; below 0 for 1000", Default: int32(-1)}},
		Infer: func(s *ops.Shapes) error {
			if n := ops.Product(s.In("Cond").Dims); s.In("Cond").DType != tensor.Bool || !opkit.Agree(n, 1) {
				return s.Errorf("Cond", "bool of one element")
			}
			return nil
		},
		Bind: bindAssert,
	})
}

func checkPhase(op *program.Op) error {
	switch phase, _ := op.Str("print_phase"); strings.ToUpper(phase) {
	case "FORWARD", "BACKWARD", "BOTH":
		return nil
	}
	return errors.New("FORWARD, BACKWARD or BOTH")
}

// printGradient is print again: it writes about the gradient, and hands it on.
func printGradient(g *ops.Grad) ([]*program.Op, error) {
	op := g.GradOp("print")
	for name, value := range g.Op().Attrs {
		if _, set := op.Attrs[name]; !set && !strings.HasPrefix(name, "op_") {
			op.SetAttr(name, value)
		}
	}
	op.SetAttr("is_forward", false)
	op.Inputs["In"], op.Outputs["Out"] = g.OutGrad("Out"), g.InGrad("In")
	return []*program.Op{op}, nil
}

func bindPrint[T tensor.Element](b *ops.Binding) (ops.Kernel, error) {
	from, to, write := b.In("In"), b.Out("Out"), newPrinter(b)
	return func(ctx context.Context) error {
		write(ctx)
		if to != nil {
			copy(tensor.Data[T](to), tensor.Data[T](from))
		}
		return nil
	}, nil
}

// newPrinter returns what writes the line of one run of print.
func newPrinter(b *ops.Binding) func(context.Context) {
	given, phase := b.In("In"), strings.ToUpper(b.Str("print_phase"))
	silent := b.Env == nil || b.Env.Log == nil || phase == "BACKWARD" && b.Bool("is_forward") || phase == "FORWARD" && !b.Bool("is_forward")
	if silent {
		return func(context.Context) {}
	}
	first, most, message, runs := b.Int("first_n"), b.Int("summarize"), b.Str("message"), int64(0)
	if message == "" {
		message = "print"
	}
	return func(ctx context.Context) {
		if runs++; first > 0 && runs > first {
			return
		}
		line := []slog.Attr{slog.Uint64("step", b.Env.Step.Round)}
		if b.Bool("print_tensor_name") {
			line = append(line, slog.String("variable", b.Op().In("In")))
		}
		if b.Bool("print_tensor_type") {
			line = append(line, slog.String("dtype", given.DType().String()))
		}
		if b.Bool("print_tensor_shape") {
			line = append(line, slog.String("shape", fmt.Sprint(given.Dims())))
		}
		if b.Bool("print_tensor_layout") {
			line = append(line, slog.String("layout", "NCHW"))
		}
		if b.Bool("print_tensor_lod") {
			for _, level := range given.LoD() {
				line = append(line, slog.String("lod", firstOf(level, mostPrinted)))
			}
		}
		b.Env.Log.LogAttrs(ctx, ops.LevelPrint, message, append(line, slog.String("data", firstElements(given, most)))...)
	}
}

// firstElements shows up to most elements of a tensor, at most mostPrinted.
func firstElements(t *tensor.Tensor, most int64) string {
	if most < 0 || most > mostPrinted {
		most = mostPrinted
	}
	switch t.DType() {
	case tensor.Float32:
		return firstOf(t.Float32s(), most)
	case tensor.Float64:
		return firstOf(t.Float64s(), most)
	case tensor.Int64:
		return firstOf(t.Int64s(), most)
	case tensor.Int32:
		return firstOf(t.Int32s(), most)
	}
	return firstOf(t.Bools(), most)
}

func firstOf[T any](values []T, most int64) string {
	if int64(len(values)) <= most {
		return fmt.Sprint(values)
	}
	return strings.TrimSuffix(fmt.Sprint(values[:most]), "]") + " ...]"
}

func bindAssert(b *ops.Binding) (ops.Kernel, error) {
	cond, data, most := b.In("Cond"), b.Ins("Data"), b.Int("summarize")
	return func(context.Context) error {
		if cond.Bools()[0] {
			return nil
		}
		var values []string
		for i, t := range data {
			if t != nil {
				values = append(values, fmt.Sprintf("%s %v = %s", b.Op().Inputs["Data"][i], t.Dims(), firstElements(t, most)))
			}
		}
		return fault.E(fault.InvalidArgument, fault.On(b.Op()), fault.Var(b.Op().In("Cond")), fault.Got("false: "+strings.Join(values, ", ")), fault.Want("true, as the program asserts"))
	}, nil
}
