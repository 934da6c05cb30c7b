package sequence

import (
	"math"
	"slices"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func init() {
	opkit.Register(ops.Def{
		Type: "sequence_topk_avg_pooling",
		Doc: "Takes means of the largest elements of the rows of grids: the grid of sequence i has as many rows as that of ROW and as many columns as that of COLUMN. For each row r, " +
			"channel c and number k of topks, Out[r, c*len(topks)+j] is the sum of the k largest elements of the row over k, also where it has fewer.",
		Inputs: []ops.Slot{
			{Name: "X", Doc: "float [elements, 1], a sequence for each grid: channel_num channels of it"},
			{Name: "ROW", Doc: "any, of one LoD level, which alone counts"},
			{Name: "COLUMN", Doc: "likewise"}},
		Outputs: []ops.Slot{
			{Name: "Out", Doc: "[rows of ROW, channel_num*len(topks)], sequences as in ROW"},
			{Name: "pos", Doc: "int32 [rows of ROW * channel_num * largest of topks]: the columns of the largest elements, -1 beyond the row", Intermediate: true}},
		Attrs: []ops.Attr{
			{Name: "topks", Doc: "numbers of elements, at least 1 each", Kind: []int32(nil)},
			{Name: "channel_num", Doc: "channels of X", Kind: int32(0)}},
		Infer:     inferTopKAvg,
		MixesRows: dividedTogether("X", "ROW", "COLUMN"),
		Cost:      opkit.PerElement(4),
		Bind:      opkit.BindFloats("X", bindTopKAvg[float32], bindTopKAvg[float64]),
	}, opkit.Gradient{
		Doc:     "dX is 0, but for the elements that pos names: each gets dOut/k of every k that counts it.",
		Inputs:  []string{"X", "ROW", "COLUMN"},
		Outputs: []string{"pos"},
		From:    []string{"Out"},
		Wrt:     []string{"X"},
		Cost:    opkit.PerElement(2),
		Bind:    opkit.BindFloats("X", bindTopKAvgGrad[float32], bindTopKAvgGrad[float64]),
	})
}

func inferTopKAvg(s *ops.Shapes) error {
	topks, channels := s.Ints("topks"), s.Int("channel_num")
	if channels < 1 || channels > math.MaxInt32 {
		return opkit.BadAttr(s, "channel_num", "1 to %d", math.MaxInt32)
	}
	if len(topks) == 0 || slices.Min(topks) < 1 || slices.Max(topks) > math.MaxInt32 {
		return opkit.BadAttr(s, "topks", "numbers of at least 1")
	}
	if err := checkGrids(s, "X"); err != nil {
		return err
	}
	rows := s.In("ROW").Dims[0]
	columns, places := ops.Product([]int64{channels, int64(len(topks))}), ops.Product([]int64{rows, channels, slices.Max(topks)})
	if columns < 0 || places < 0 && rows >= 0 {
		return opkit.BadAttr(s, "topks", "numbers whose places fit into memory")
	}
	s.Set("Out", s.In("X").DType, rows, columns)
	s.ShareLoD("Out", "ROW")
	s.Set("pos", tensor.Int32, places)
	return nil
}

// A topKAvg is a bound sequence_topk_avg_pooling, or its gradient.
type topKAvg struct {
	*pairing
	topks    []int64
	most     int
	channels int
}

func newTopKAvg(b *ops.Binding) *topKAvg {
	topks := b.Ints("topks")
	return &topKAvg{pairing: pair(b, "ROW", "COLUMN", 1, 1), topks: topks, most: int(slices.Max(topks)), channels: int(b.Int("channel_num"))}
}

// lanes calls do for each row and channel of a grid: with the place of its first element in X, and the number of the row and channel in Out and pos.
func (k *topKAvg) lanes(at grid, do func(first, lane int)) {
	for c := range k.channels {
		for r := range at.height {
			do(k.channels*at.before+(c*at.height+r)*at.width, (at.row+r)*k.channels+c)
		}
	}
}

func bindTopKAvg[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	k, x, out, pos := newTopKAvg(b), b.In("X"), b.Out("Out"), b.Out("pos")
	if pos == nil {
		pos = b.Scratch(tensor.Int32, int(b.In("ROW").Dims()[0])*k.channels*k.most)
	}
	sums := b.Scratch(tensor.Of[T](), b.Parts()*k.most)
	return b.Loops(k.count(b, measured{"X", x, k.channels, false}), k.each(func(part int, at grid) {
		sums := ops.Part(tensor.Data[T](sums), part, k.most)
		k.lanes(at, func(first, lane int) {
			values, places := tensor.Data[T](x)[first:][:at.width], row(pos.Int32s(), lane, k.most)
			kernel.TopPlaces(places, values)
			sum := T(0)
			for i, place := range places {
				if place >= 0 {
					sum += values[place]
				}
				sums[i] = sum
			}
			if out == nil {
				return
			}
			for i, n := range k.topks {
				row(tensor.Data[T](out), lane, len(k.topks))[i] = sums[n-1] / T(n)
			}
		})
	}))
}

func bindTopKAvgGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	k, pos, dout, dx := newTopKAvg(b), b.In("pos"), b.In(program.GradName("Out")), b.Out(program.GradName("X"))
	return b.Loops(k.count(b, measured{"X", dx, k.channels, false}), k.each(func(_ int, at grid) {
		k.lanes(at, func(first, lane int) {
			d, g := tensor.Data[T](dx)[first:][:at.width], row(tensor.Data[T](dout), lane, len(k.topks))
			clear(d)
			for j, n := range k.topks {
				for _, place := range row(pos.Int32s(), lane, k.most)[:n] {
					if place >= 0 && int(place) < at.width {
						d[place] += g[j] / T(n)
					}
				}
			}
		})
	}))
}
