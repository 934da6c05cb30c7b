package detection

import (
	"context"
	"errors"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func init() {
	ops.Register(ops.Def{
		Type: "nms", Class: ops.Control, Exempt: ops.RowsOfData,
		Doc: "Keeps the first of boxes that overlap: a box is dropped if its overlap with one before it that is kept is above iou_threshold. Boxes are in descending order of " +
			"their scores. How many stay is known only when the op has run.",
		Inputs:  []ops.Slot{{Name: "Boxes", Doc: "float [rows, 4], not in pixels"}},
		Outputs: []ops.Slot{{Name: "KeepBoxesIdxs", Doc: "int64, the rows of the boxes that stay, in ascending order"}},
		Attrs: []ops.Attr{{Name: "iou_threshold", Doc: "the largest overlap of boxes that are both kept, at most 1", Default: float32(1), Check: func(op *program.Op) error {
			if limit, ok := op.Float("iou_threshold"); ok && !(limit <= 1) {
				return errors.New("at most 1")
			}
			return nil
		}}},
		MixesRows: opkit.Mixes,
		Infer: func(s *ops.Shapes) error {
			s.Set("KeepBoxesIdxs", tensor.Int64, program.Unknown)
			if err := opkit.CheckType(s, "Boxes", s.In("Boxes").Kind == program.LoDTensor, "a dense tensor"); err != nil {
				return err
			}
			return boxesOf(s, "Boxes")
		},
		Bind: byFloat("Boxes", bindKeep[float32], bindKeep[float64]),
	})
}

func bindKeep[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	boxes, to, limit := b.In("Boxes"), b.Out("KeepBoxesIdxs"), T(b.Float("iou_threshold"))
	var kept []int64
	size := []int64{0}
	return func(ctx context.Context) error {
		all := tensor.Data[T](boxes)
		kept = kept[:0]
	next:
		for row := range len(all) / 4 {
			if err := ctx.Err(); err != nil {
				return err
			}
			for _, better := range kept {
				if overlap(all[4*better:][:4], all[4*row:][:4], true) > limit {
					continue next
				}
			}
			kept = append(kept, int64(row))
		}
		if to == nil {
			return nil
		}
		size[0] = int64(len(kept))
		if err := tensor.Resize(to, tensor.Int64, size...); err != nil {
			return err
		}
		copy(to.Int64s(), kept)
		return nil
	}, nil
}
