package random_test

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/random"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
	"pgregory.net/rapid"
)

// TestStatistics compares mean, deviation and range of many numbers with those of the distribution.
func TestStatistics(t *testing.T) {
	truncated := math.Sqrt(1 - 4*math.Exp(-2)/math.Sqrt(2*math.Pi)/math.Erf(math.Sqrt2)) // of the normal distribution cut at ±2
	for _, c := range []struct {
		opType         string
		attrs          map[string]program.Attr
		mean, std, end float64
	}{
		{"uniform_random", nil, 0, 1 / math.Sqrt(3), 1},
		{"uniform_random", map[string]program.Attr{"min": float32(2), "max": float32(5), "seed": int64(1) << 40}, 3.5, 3 / math.Sqrt(12), 1.5},
		{"gaussian_random", nil, 0, 1, 7},
		{"gaussian_random", map[string]program.Attr{"mean": float32(-3), "std": float32(0.5)}, -3, 0.5, 3.5},
		{"truncated_gaussian_random", nil, 0, truncated, 2},
		{"truncated_gaussian_random", map[string]program.Attr{"mean": float32(1), "std": float32(2)}, 1, 2 * truncated, 4},
	} {
		for _, dtype := range []tensor.DType{tensor.Float32, tensor.Float64} {
			const n = 40000
			attrs := map[string]program.Attr{"dtype": int32(dtype)}
			maps.Copy(attrs, c.attrs)
			sum, squares := 0.0, 0.0
			for _, v := range run(t, initializer(c.opType, attrs, n)) {
				if math.Abs(v-c.mean) > c.end {
					t.Fatalf("%s %v drew %v", c.opType, c.attrs, v)
				}
				sum += v
				squares += (v - c.mean) * (v - c.mean)
			}
			// Five standard errors; the seed is fixed, so this either always holds or never.
			if mean := sum / n; math.Abs(mean-c.mean) > 5*c.std/math.Sqrt(n) {
				t.Errorf("%s %v has the mean %v, want %v", c.opType, c.attrs, mean, c.mean)
			}
			if std := math.Sqrt(squares / n); math.Abs(std/c.std-1) > 5/math.Sqrt(n) {
				t.Errorf("%s %v has the deviation %v, want %v", c.opType, c.attrs, std, c.std)
			}
		}
	}
}

// TestWhatNumbersDependOn counts equal elements of two variables: all or none.
func TestWhatNumbersDependOn(t *testing.T) {
	for _, opType := range opTypes {
		base := run(t, initializer(opType, nil, 64))
		named := initializer(opType, nil, 64)
		named.Outputs["Out"] = []string{"v"}
		as := initializer(opType, map[string]program.Attr{"origin": "w"}, 64)
		as.Outputs["Out"] = []string{"v"}
		for name, c := range map[string]struct {
			op    *program.Op
			equal bool
		}{
			"another run":      {initializer(opType, nil, 64), true},
			"other dims":       {initializer(opType, nil, 4, 16), true},
			"the seed 0":       {initializer(opType, map[string]program.Attr{"seed": int32(0)}, 64), true},
			"another variable": {named, false},
			"the origin":       {as, true},
			"another seed":     {initializer(opType, map[string]program.Attr{"seed": int32(1)}, 64), false},
			"another place":    {initializer(opType, map[string]program.Attr{"first_element": int64(64)}, 64), false},
		} {
			same := 0
			for i, v := range run(t, c.op) {
				if v == base[i] {
					same++
				}
			}
			if c.equal && same != 64 || !c.equal && same > 1 {
				t.Errorf("%s with %s: %d of 64 elements are equal", opType, name, same)
			}
		}
	}
}

// TestNumbersStayAsTheyAre pins a few numbers, computed apart: a release that changes them would train other models from the same program.
func TestNumbersStayAsTheyAre(t *testing.T) {
	want := map[string]string{
		"uniform_random":            "[0.411288728 -0.499037054 -0.682217403]",
		"gaussian_random":           "[0.540704507 -0.672975392 -0.999024967]",
		"truncated_gaussian_random": "[0.513752534 -0.637699572 -0.936873429]",
	}
	for _, opType := range opTypes {
		got := run(t, initializer(opType, map[string]program.Attr{"seed": int32(90), "dtype": int32(tensor.Float64)}, 3))
		if s := fmt.Sprintf("%.9f", got); s != want[opType] {
			t.Errorf("%s draws %s, want %s", opType, s, want[opType])
		}
	}
}

func TestFaults(t *testing.T) {
	nan := float32(math.NaN())
	for _, opType := range opTypes {
		for name, c := range map[string]struct {
			attrs map[string]program.Attr
			kind  fault.Kind
		}{
			"integers":               {map[string]program.Attr{"dtype": int32(tensor.Int64)}, fault.Unsupported},
			"no type":                {map[string]program.Attr{"dtype": int32(99)}, fault.InvalidArgument},
			"open extent":            {map[string]program.Attr{"shape": []int32{-1, 3}}, fault.InvalidArgument},
			"overflow":               {map[string]program.Attr{"shape": []int64{math.MaxInt64, 2}}, fault.InvalidArgument},
			"rank":                   {map[string]program.Attr{"shape": make([]int64, 17)}, fault.TooLarge},
			"shape is a string":      {map[string]program.Attr{"shape": "3"}, fault.TypeMismatch},
			"before the first":       {map[string]program.Attr{"first_element": int64(-1)}, fault.InvalidArgument},
			"after the last":         {map[string]program.Attr{"first_element": int64(math.MaxInt64 - 1)}, fault.InvalidArgument},
			"not a mean":             {map[string]program.Attr{"min": nan, "mean": nan}, fault.InvalidArgument},
			"more than stripes have": {map[string]program.Attr{"striped_rows": int64(1)}, fault.InvalidArgument},
			"stripes within a row":   {map[string]program.Attr{"striped_rows": int64(9), "first_element": int64(1)}, fault.InvalidArgument},
			"negative stripes":       {map[string]program.Attr{"striped_rows": int64(-9)}, fault.InvalidArgument},
			"negative spread":        {map[string]program.Attr{"min": float32(3), "std": float32(-1)}, fault.InvalidArgument},
		} {
			if _, err := infer(initializer(opType, maps.Clone(c.attrs), 2, 3)); !errors.Is(err, c.kind) {
				t.Errorf("%s with %s: %v, want %v", opType, name, err, c.kind)
			}
		}
		op := initializer(opType, nil, 2)
		delete(op.Attrs, "shape")
		if _, err := infer(op); !errors.Is(err, fault.InvalidProgram) {
			t.Errorf("%s without shape: %v", opType, err)
		}
	}
}

func TestKernelsAllocateNothing(t *testing.T) {
	for _, opType := range opTypes {
		op := initializer(opType, nil, 64)
		_, kernel := bind(t, op, ops.Meta{DType: tensor.Float32, Dims: []int64{64}})
		if n := testing.AllocsPerRun(20, func() { _ = kernel(t.Context()) }); n != 0 {
			t.Errorf("%s allocates %v times a run", opType, n)
		}
	}
}

// TestSlicesEqualTheWhole cuts a variable twice: a slice of a slice is a slice of the whole.
func TestSlicesEqualTheWhole(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		attrs := map[string]program.Attr{
			"dtype": int32(rapid.SampledFrom([]tensor.DType{tensor.Float32, tensor.Float64}).Draw(rt, "dtype")),
			"seed":  int32(rapid.IntRange(-3, 3).Draw(rt, "seed")),
		}
		rows, width := rapid.Int64Range(1, 30).Draw(rt, "rows"), rapid.Int64Range(0, 7).Draw(rt, "width")
		whole := initializer(rapid.SampledFrom(opTypes).Draw(rt, "op"), attrs, rows, width)
		from := rapid.Int64Range(0, rows).Draw(rt, "from")
		to := rapid.Int64Range(from, rows).Draw(rt, "to")
		inner := rapid.Int64Range(0, to-from).Draw(rt, "inner")

		part, err := random.Slice(whole, "w.block1", from, to)
		if err != nil {
			rt.Fatal(err)
		}
		nested, err := random.Slice(part, "w.block1.block0", inner, to-from)
		if err != nil {
			rt.Fatal(err)
		}
		all := run(t, whole)
		if got, want := run(t, part), all[from*width:to*width]; !slices.Equal(got, want) {
			rt.Fatalf("rows [%d, %d) are %v, in the whole %v", from, to, got, want)
		}
		if got, want := run(t, nested), all[(from+inner)*width:to*width]; !slices.Equal(got, want) {
			rt.Fatalf("rows [%d, %d) of the slice are %v, in the whole %v", inner, to-from, got, want)
		}
		striped, err := random.Stripes(whole, "w.block1", from, to)
		if err != nil {
			rt.Fatal(err)
		}
		if width > 0 {
			got, stripes := run(t, striped), kernel.StripesOf(rows)
			for at := from; at < to; at++ {
				row := stripes.Row(at)
				if got, want := got[(at-from)*width:][:width], all[row*width:][:width]; !slices.Equal(got, want) {
					rt.Fatalf("row %d, at %d in stripes, is %v, in the whole %v", row, at, got, want)
				}
			}
		}
		if _, err := random.Stripes(part, "w.block1", 0, to-from); !errors.Is(err, fault.InvalidArgument) {
			rt.Fatalf("stripes of a slice: %v", err)
		}
		if name := nested.Out("Out"); name != "w.block1.block0" {
			rt.Fatalf("the slice fills %q", name)
		}
	})
}

func TestSliceFaults(t *testing.T) {
	whole := initializer("uniform_random", nil, 4, 2)
	for _, rows := range [][2]int64{{-1, 2}, {3, 2}, {0, 5}, {math.MinInt64, math.MaxInt64}} {
		if _, err := random.Slice(whole, "s", rows[0], rows[1]); !errors.Is(err, fault.ShapeMismatch) {
			t.Errorf("rows %v of 4: %v", rows, err)
		}
	}
	for name, op := range map[string]*program.Op{
		"no initializer":  {Type: "sgd"},
		"no random place": initializer("uniform_random", map[string]program.Attr{"first_element": int64(-7)}, 4),
		"a scalar":        initializer("uniform_random", nil),
		"a hostile shape": initializer("uniform_random", nil, math.MaxInt64, math.MaxInt64),
	} {
		if _, err := random.Slice(op, "s", 0, 0); err == nil {
			t.Errorf("%s is sliced", name)
		}
	}
	scalar, err := random.Slice(initializer("uniform_random", nil), "s", 0, 1)
	if err != nil || !slices.Equal(run(t, scalar), run(t, initializer("uniform_random", nil))) {
		t.Errorf("the one row of a scalar: %v, %v", scalar, err)
	}
	if shape, _ := whole.Ints("shape"); !slices.Equal(shape, []int64{4, 2}) {
		t.Errorf("slicing changed the op: shape %v", shape)
	}
}

// In a program that trains, each step has new numbers, and a trainer with a part of the batch those of its rows.
func TestNumbersOfSteps(t *testing.T) {
	given := true // tensors have given the dims
	draw := func(step ops.Step, rows int64) []float32 {
		op := initializer("uniform_random", nil, rows, 3)
		if given {
			op.SetAttr(ops.GivenAttr, true)
		}
		out, err := tensor.New(tensor.Float32, rows, 3)
		if err != nil {
			t.Fatal(err)
		}
		def, _ := ops.Lookup(op.Type)
		kernel, err := def.Bind(ops.NewBinding(op, def, &ops.Env{Step: &step}, nil, map[string][]*tensor.Tensor{"Out": {out}}, nil))
		if err != nil {
			t.Fatal(err)
		}
		if err := kernel(t.Context()); err != nil {
			t.Fatal(err)
		}
		return out.Float32s()
	}
	first, second := draw(ops.Step{Rows: 4}, 4), draw(ops.Step{Round: 1, Rows: 4}, 4)
	if slices.Equal(first, second) {
		t.Error("two steps have the same numbers")
	}
	if part := draw(ops.Step{Round: 1, RowOffset: 1, Rows: 2}, 2); !slices.Equal(part, second[3:9]) {
		t.Errorf("a part has %v, want %v", part, second[3:9])
	}
	if fixed, whole := draw(ops.Step{Round: 1, RowOffset: 2, Rows: 2}, 3), draw(ops.Step{Round: 1, Rows: 4}, 3); !slices.Equal(fixed, whole) {
		t.Error("numbers that have no rows of the batch differ between trainers")
	}
	given = false
	if fixed, whole := draw(ops.Step{Round: 1, RowOffset: 2, Rows: 2}, 4), draw(ops.Step{Round: 1, Rows: 4}, 4); !slices.Equal(fixed, whole) {
		t.Error("numbers of fixed dims differ between trainers")
	}
}
