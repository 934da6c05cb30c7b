package optim

import (
	"errors"
	"math"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// mostAccumulated is after how many updates average_accumulates moves its first sum to the second, so that small terms are not lost in a large sum.
const mostAccumulated = 16384

var (
	averageSums     = [][2]string{{"in_sum_1", "out_sum_1"}, {"in_sum_2", "out_sum_2"}, {"in_sum_3", "out_sum_3"}}
	averageCounters = [][2]string{{"in_num_accumulates", "out_num_accumulates"}, {"in_old_num_accumulates", "out_old_num_accumulates"},
		{"in_num_updates", "out_num_updates"}}
)

func init() {
	def := ops.Def{
		Type:  "average_accumulates",
		Class: ops.Optimize,
		Doc: "Keeps sums of a parameter over a window of the last steps, for ModelAverage: the mean is (sum_1 + sum_2 + sum_3)/(num_accumulates + old_num_accumulates). " +
			"Each step adds 1 to num_updates and num_accumulates, and param to sum_1. After every 16384 updates sum_1 moves to sum_2. " +
			"When num_accumulates is at least min_average_window and at least the smaller of max_average_window and num_updates*average_window, " +
			"sum_3 = sum_1 + sum_2, both become 0, old_num_accumulates = num_accumulates, and num_accumulates = 0.",
		Inputs: []ops.Slot{{Name: "param", Doc: "the parameter after its update, float32 or float64"}},
		Attrs: []ops.Attr{
			number("average_window", 0, 0, math.MaxFloat32, "length of the window as a share of all updates"),
			{Name: "max_average_window", Kind: int64(0), Doc: "the longest window", Check: atLeastOne("max_average_window")},
			{Name: "min_average_window", Default: int64(10000), Doc: "the shortest window", Check: atLeastOne("min_average_window")},
		},
		Infer:     inferAverage,
		Cost:      opkit.PerElement(2),
		Bind:      opkit.BindFloats("param", bindAverage[float32], bindAverage[float64]),
		RowSliced: true,
		InPlace:   map[string]string{},
	}
	for _, slots := range averageSums {
		def.Inputs = append(def.Inputs, ops.Slot{Name: slots[0], Doc: "of the dims of param, at first 0"})
	}
	for _, slots := range averageCounters {
		def.Inputs = append(def.Inputs, ops.Slot{Name: slots[0], Doc: "int64, one element, at first 0"})
	}
	for _, slots := range append(averageSums[:3:3], averageCounters...) {
		def.Outputs = append(def.Outputs, ops.Slot{Name: slots[1], Doc: "the new " + slots[0]})
		def.InPlace[slots[1]] = slots[0]
	}
	ops.Register(def)
}

func atLeastOne(name string) func(*program.Op) error {
	return func(op *program.Op) error {
		if v, ok := op.Int(name); ok && v < 1 {
			return errors.New("at least 1")
		}
		return nil
	}
}

func inferAverage(s *ops.Shapes) error {
	if err := s.IsFloat("param"); err != nil {
		return err
	}
	for _, slots := range averageSums {
		if err := s.SameType("param", slots[0]); err != nil {
			return err
		}
		if !ops.Compatible(s.In(slots[0]).Dims, s.In("param").Dims) {
			return s.Errorf(slots[0], "%v, the dims of param", s.In("param").Dims)
		}
		s.Like(slots[1], slots[0])
	}
	for _, slots := range averageCounters {
		if m := s.In(slots[0]); m.DType != tensor.Int64 || ops.Product(m.Dims) != 1 {
			return s.Errorf(slots[0], "one int64")
		}
		s.Like(slots[1], slots[0])
	}
	return nil
}

// An averageStep is what a step does to the sums, and the counters after it.
type averageStep struct {
	counters    [3]int64 // num_accumulates, old_num_accumulates, num_updates
	move, close bool     // sum_1 to sum_2; the window
}

// nextAverage returns the step after the given counters.
func nextAverage(accumulated, old, updates int64, window float64, least, most int64) averageStep {
	s := averageStep{counters: [3]int64{accumulated + 1, old, updates + 1}}
	s.move = s.counters[2]%mostAccumulated == 0
	s.close = s.counters[0] >= least && s.counters[0] >= int64(min(float64(most), float64(s.counters[2])*window))
	if s.close {
		s.counters[0], s.counters[1] = 0, s.counters[0]
	}
	return s
}

func bindAverage[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	param := b.In("param")
	var sums [3]state
	for i, slots := range averageSums {
		sums[i] = state{in: b.In(slots[0]), out: b.Out(slots[1]), slot: slots[1]}
		if err := sums[i].check(param.DType(), param); err != nil {
			return nil, err
		}
	}
	var in, out [3]*tensor.Tensor
	var counters, counted []string
	for i, slots := range averageCounters {
		in[i], out[i] = b.In(slots[0]), b.Out(slots[1])
		for _, t := range []*tensor.Tensor{in[i], out[i]} {
			if t == nil || t.DType() != tensor.Int64 || t.Len() != 1 {
				return nil, fault.E(fault.ShapeMismatch, fault.Got("no counter in "+slots[0]), fault.Want("one int64"))
			}
		}
		counters, counted = append(counters, slots[0]), append(counted, slots[1])
	}
	window, least, most := b.Float("average_window"), b.Int("min_average_window"), b.Int("max_average_window")
	next := func() averageStep {
		return nextAverage(in[0].Int64s()[0], in[1].Int64s()[0], in[2].Int64s()[0], window, least, most)
	}
	return b.Loops(
		ops.Loop{N: param.Len(), Whole: counters, Writes: []string{"out_sum_1", "out_sum_2", "out_sum_3"}, Run: func(_, from, to int) error {
			s := next()
			kernel.AverageAccumulates(inPlace[T](sums[0], from, to), inPlace[T](sums[1], from, to), inPlace[T](sums[2], from, to),
				tensor.Data[T](param)[from:to], s.move, s.close)
			return nil
		}},
		ops.Loop{N: 1, Apart: true, Reads: counters, Writes: counted, Run: func(int, int, int) error {
			for i, v := range next().counters {
				out[i].Int64s()[0] = v
			}
			return nil
		}})
}
