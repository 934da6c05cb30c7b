package executor

import (
	"cmp"
	"slices"
	"strings"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/merge"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// Scalar returns the only element of a tensor, such as a fetched loss, as a number: 0 or 1 for a truth value. It panics when t has another number of
// elements.
func Scalar(t *tensor.Tensor) float64 {
	if t.Len() != 1 {
		panic("executor.Scalar of " + t.String())
	}
	switch t.DType() {
	case tensor.Bool:
		if t.Bools()[0] {
			return 1
		}
		return 0
	case tensor.Int32:
		return float64(t.Int32s()[0])
	case tensor.Int64:
		return float64(t.Int64s()[0])
	case tensor.Float32:
		return float64(t.Float32s()[0])
	case tensor.BFloat16:
		return float64(tensor.Widen(tensor.Data[uint16](t)[0]))
	}
	return t.Float64s()[0]
}

// A Part is what one trainer fetched from its rows of a batch.
type Part struct {
	Value *tensor.Tensor // not read when Rows is 0
	Rows  int64
	// Weight is what the part weighs in a mean where that is not Rows, because rows form sequences; see ops.WeightOf. 0 in all parts where it is.
	Weight int64
}

// MergeFetch makes of what several trainers fetched what one machine would have fetched, as far as the declaration of the variable
// tells: rows are put one after another in the order of parts, and so are their sequences; persistable variables are the same everywhere, whole numbers are
// counts and are added, and other numbers are averaged with the weight of their rows, or added when loss is ops.MergeSum. Gradients that have rows are
// scaled when the loss is a mean, because each trainer has divided it by its own rows. rows is how many the batch has, also those that no part has,
// because its trainer was lost. along says where the variable has the records (ops.Fetches.Along): the parts follow one another there. At least one part must have rows. The
// result belongs to the caller.
func MergeFetch(declared *program.Var, loss ops.Merge, along ops.Along, rows int64, parts []Part) (*tensor.Tensor, error) {
	var shares []merge.Share
	var weight int64
	for _, p := range parts {
		if p.Rows > 0 {
			shares = append(shares, merge.Share{Value: p.Value, Rows: p.Rows, Weight: p.Weight})
			weight += p.Weight
		}
	}
	if len(shares) == 0 {
		return nil, fault.E(fault.InvalidArgument, fault.Var(declared.Name), fault.Got("no part with rows"), fault.Want("at least one"))
	}
	first := shares[0].Value
	byRows := !declared.Persistable && (along.Axis > 0 || len(declared.Dims) > 0 && declared.Dims[0] == program.Unknown)
	for _, s := range shares[1:] {
		if s.Value.DType() != first.DType() || !byRows && s.Value.Len() != first.Len() {
			return nil, fault.E(fault.ShapeMismatch, fault.Var(declared.Name), fault.Got(s.Value.String()+" of another trainer"),
				fault.Want(first.String()))
		}
	}
	switch {
	case byRows:
		if loss != ops.MergeMean || !strings.Contains(declared.Name, program.GradSuffix) {
			rows = 0
		} else if weight > 0 {
			rows = weight
		}
		return concatenate(declared.Name, along, shares, rows)
	case declared.Persistable || len(shares) == 1 || first.DType() == tensor.Bool:
		return first.Clone(), nil
	case first.DType().IsFloat():
		merged := first.Clone()
		return merged, merge.Gradients(merged, shares, loss)
	}
	return added(shares)
}

// concatenate puts the records of all shares into one tensor, where they lie. When scaledTo is not 0, they are gradients of the mean of each share, and become those of the
// mean over so many rows.
func concatenate(name string, along ops.Along, shares []merge.Share, scaledTo int64) (*tensor.Tensor, error) {
	axis, runs := along.Axis, int64(max(along.Runs, 1))
	rows := int64(0)
	var lod [][]int64
	for i, s := range shares {
		d, first := s.Value.Dims(), shares[0].Value.Dims()
		if len(d) <= axis || len(d) != len(first) || !slices.Equal(d[:axis], first[:axis]) || d[axis]%runs != 0 {
			return nil, fault.E(fault.ShapeMismatch, fault.Var(name), fault.Got(s.Value.String()+" of a trainer"), fault.Wantf("%d times its records along axis %d, beside %v of another one", runs, axis, shares[0].Value))
		}
		rows += d[axis]
		if i == 0 {
			lod = make([][]int64, len(s.Value.LoD()))
		}
		if len(s.Value.LoD()) != len(lod) {
			return nil, fault.E(fault.ShapeMismatch, fault.Var(name), fault.Gotf("%d LoD levels", len(s.Value.LoD())), fault.Wantf("%d, as another trainer has", len(lod)))
		}
		tensor.AppendLoD(lod, s.Value.LoD())
	}
	first := shares[0].Value
	dims := slices.Clone(first.Dims())
	dims[axis] = rows
	whole, err := tensor.New(first.DType(), dims...)
	if err != nil {
		return nil, err
	}
	outer, from := ops.Product(dims[:axis])*runs, int64(0) // how many times the records of a trainer come, and where they begin among those of all
	rows /= runs
	flat, err := whole.Reshape(append([]int64{outer * rows}, dims[axis+1:]...)...)
	if err != nil {
		return nil, err
	}
	for _, s := range shares {
		n := s.Value.Dims()[axis] / runs
		value, err := s.Value.Reshape(append([]int64{outer * n}, s.Value.Dims()[axis+1:]...)...)
		if err != nil {
			return nil, err
		}
		for i := range outer {
			if err := copyShare(flat, i*rows+from, value, i*n, n, s, scaledTo); err != nil {
				return nil, fault.E(fault.KindOf(err), fault.Var(name), fault.Cause(err))
			}
		}
		from += n
	}
	whole.SetLoD(lod)
	return whole, nil
}

// copyShare copies n rows of the value of a share, from row at on, to rows of the whole, and scales gradients to so many rows unless that is 0.
func copyShare(whole *tensor.Tensor, to int64, value *tensor.Tensor, at, n int64, s merge.Share, scaledTo int64) error {
	part, err := whole.Rows(to, to+n)
	if err != nil {
		return err
	}
	rows, err := value.Rows(at, at+n)
	if err != nil {
		return err
	}
	if err := part.CopyFrom(rows); err != nil || scaledTo == 0 || rows.Len() == 0 {
		return err
	}
	return merge.ScaleRows(part, cmp.Or(s.Weight, s.Rows), scaledTo)
}

func added(shares []merge.Share) (*tensor.Tensor, error) {
	total := shares[0].Value.Clone()
	for _, s := range shares[1:] {
		if total.DType() == tensor.Int32 {
			kernel.Accumulate(total.Int32s(), s.Value.Int32s())
		} else {
			kernel.Accumulate(total.Int64s(), s.Value.Int64s())
		}
	}
	return total, nil
}
