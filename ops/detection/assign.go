package detection

import (
	"math"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/tensor"
)

func init() {
	ops.Register(ops.Def{
		Type: "box_decoder_and_assign",
		Doc: "Reads a box of each class relative to a region, and takes that of the class with the largest score, but for class 0, the background: where no score of another class is above -1, the " +
			"region itself. Codes of width and height are limited to box_clip after they are multiplied by their variance. Boxes include the pixels of both sides.",
		Inputs: []ops.Slot{{Name: "PriorBox", Doc: "float boxes [R, 4]"}, {Name: "PriorBoxVar", Doc: "[4]: factors of the codes"},
			{Name: "TargetBox", Doc: "[R, classes*4]: codes of boxes"}, {Name: "BoxScore", Doc: "[R, classes]"}},
		Outputs: []ops.Slot{{Name: "DecodeBox", Doc: "[R, classes*4]"}, {Name: "OutputAssignBox", Doc: "[R, 4]"}},
		Attrs:   []ops.Attr{{Name: "box_clip", Doc: "the largest logarithm of growth", Default: float32(4.135)}},
		Infer: func(s *ops.Shapes) error {
			if err := boxesOf(s, "PriorBox"); err != nil {
				return err
			}
			if err := s.SameType("PriorBox", "PriorBoxVar", "TargetBox", "BoxScore"); err != nil {
				return err
			}
			rows, score := s.In("PriorBox").Dims[0], s.In("BoxScore").Dims
			if len(score) != 2 || !opkit.Agree(score[0], rows) {
				return s.Errorf("BoxScore", "dims [%d, classes]", rows)
			}
			if !ops.Compatible(s.In("PriorBoxVar").Dims, []int64{4}) {
				return s.Errorf("PriorBoxVar", "dims [4]")
			}
			want := ops.Product([]int64{score[1], 4})
			if !ops.Compatible(s.In("TargetBox").Dims, []int64{rows, want}) {
				return s.Errorf("TargetBox", "dims [%d, %d], four numbers for each class", rows, want)
			}
			s.Like("DecodeBox", "TargetBox")
			s.Like("OutputAssignBox", "PriorBox")
			return nil
		},
		Cost:      opkit.PerElement(20),
		Bind:      opkit.BindFloats("PriorBox", bindDecodeAssign[float32], bindDecodeAssign[float64]),
		MixesRows: opkit.RowsTogether("PriorBox", "TargetBox", "BoxScore"),
	})
}

func bindDecodeAssign[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	prior, variance, target, score, decoded, assigned := b.In("PriorBox"), b.In("PriorBoxVar"), b.In("TargetBox"), b.In("BoxScore"), b.Out("DecodeBox"), b.Out("OutputAssignBox")
	rows, classes := int(score.Dims()[0]), int(score.Dims()[1])
	limit := T(b.Float("box_clip"))
	return b.Loops(ops.Loop{N: rows, Apart: true, Run: func(_, from, to int) error {
		v := tensor.Data[T](variance)
		for i := from; i < to; i++ {
			box, codes := tensor.Data[T](prior)[4*i:][:4], tensor.Data[T](target)[4*classes*i:][:4*classes]
			if decoded != nil {
				for class := range classes {
					decodeRegion(tensor.Data[T](decoded)[4*(classes*i+class):][:4], codes[4*class:][:4], box, v, limit)
				}
			}
			if assigned == nil {
				continue
			}
			best, most := 0, T(-1)
			for class, s := range tensor.Data[T](score)[classes*i:][:classes] {
				if class > 0 && s > most {
					best, most = class, s
				}
			}
			if to := tensor.Data[T](assigned)[4*i:][:4]; best > 0 {
				decodeRegion(to, codes[4*best:][:4], box, v, limit)
			} else {
				copy(to, box)
			}
		}
		return nil
	}})
}

// decodeRegion is decodeBox in pixels, whose growth is limited.
func decodeRegion[T tensor.Float](box, code, prior, variance []T, limit T) {
	w, h := span(prior[0], prior[2], false), span(prior[1], prior[3], false)
	x, y := variance[0]*code[0]*w+prior[0]+w/2, variance[1]*code[1]*h+prior[1]+h/2
	w *= T(math.Exp(float64(min(variance[2]*code[2], limit))))
	h *= T(math.Exp(float64(min(variance[3]*code[3], limit))))
	box[0], box[1], box[2], box[3] = x-w/2, y-h/2, x+w/2-1, y+h/2-1
}
