package metrics

import (
	"math"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/tensor"
)

const (
	maxColumns = 1 << 24 // scores of a row
	maxNumber  = 1e100   // of what is squared
)

// A batch is what is added at once, checked: rows of scores with their labels and weights.
type batch struct {
	scores, labels, weights column
	rows, columns           int
	first                   int64 // row of the stream that row 0 of the batch is
	epsilon                 float64
}

// A row is one prediction with its label.
type row struct {
	scores  []float64 // of each class; the only one is that of class 1, or the number that is predicted
	label   float64
	weight  float64
	epsilon float64 // a probability counts as no less than this
}

// class returns the label as a number of a class.
func (r *row) class() int { return int(r.label) }

// probability returns the probability that a row of two classes gives to class 1.
func (r *row) probability() float64 { return r.scores[len(r.scores)-1] }

// predicted returns the class with the largest score, the first of several.
func (r *row) predicted() int {
	if len(r.scores) == 1 {
		if r.scores[0] > 0.5 {
			return 1
		}
		return 0
	}
	best := 0
	for i, s := range r.scores {
		if s > r.scores[best] {
			best = i
		}
	}
	return best
}

// A column reads elements of a tensor as float64.
type column func(i int) float64

// columnOf returns how to read a tensor of numbers.
func columnOf(name string, t *tensor.Tensor) (column, error) {
	switch t.DType() {
	case tensor.Float32:
		v := t.Float32s()
		return func(i int) float64 { return float64(v[i]) }, nil
	case tensor.Float64:
		v := t.Float64s()
		return func(i int) float64 { return v[i] }, nil
	case tensor.Int64:
		v := t.Int64s()
		return func(i int) float64 { return float64(v[i]) }, nil
	case tensor.Int32:
		v := t.Int32s()
		return func(i int) float64 { return float64(v[i]) }, nil
	case tensor.Bool:
		v := t.Bools()
		return func(i int) float64 {
			if v[i] {
				return 1
			}
			return 0
		}, nil
	}
	return nil, fault.E(fault.TypeMismatch, fault.Var(name), fault.Got(t.String()), fault.Want("numbers: float32, float64, int64, int32 or bool"))
}

// batchOf checks the shapes of what is added. weight may be nil.
func batchOf(names Spec, first int64, prediction, label, weight *tensor.Tensor) (b batch, err error) {
	if prediction == nil || label == nil {
		return b, fault.E(fault.InvalidArgument, fault.At(names.Kind), fault.Got("a nil tensor"), fault.Want("a prediction and a label"))
	}
	if len(prediction.Dims()) == 0 || prediction.IsSelected() {
		return b, fault.E(fault.ShapeMismatch, fault.At(names.Kind), fault.Var(names.Prediction), fault.Got(prediction.String()), fault.Want("dims [rows, scores]"))
	}
	if !prediction.DType().IsFloat() {
		return b, fault.E(fault.TypeMismatch, fault.At(names.Kind), fault.Var(names.Prediction), fault.Got(prediction.String()), fault.Want("float32 or float64"))
	}
	b = batch{rows: int(prediction.Dims()[0]), columns: 1, first: first, epsilon: 0x1p-52}
	if prediction.DType() == tensor.Float32 {
		b.epsilon = 0x1p-23
	}
	if b.rows > 0 {
		b.columns = prediction.Len() / b.rows
	}
	if b.columns < 1 || b.columns > maxColumns {
		return b, fault.E(fault.ShapeMismatch, fault.At(names.Kind), fault.Var(names.Prediction), fault.Gotf("%d scores in a row", b.columns), fault.Wantf("1 to %d", maxColumns))
	}
	if b.scores, err = columnOf(names.Prediction, prediction); err != nil {
		return b, err
	}
	for _, of := range []struct {
		name  string
		value *tensor.Tensor
		to    *column
	}{{names.Label, label, &b.labels}, {names.Weight, weight, &b.weights}} {
		if of.value == nil {
			continue
		}
		if of.value.Len() != b.rows {
			return b, fault.E(fault.ShapeMismatch, fault.At(names.Kind), fault.Var(of.name), fault.Got(of.value.String()),
				fault.Wantf("one number for each of %d rows of %s", b.rows, fault.Quote(names.Prediction)))
		}
		if *of.to, err = columnOf(of.name, of.value); err != nil {
			return b, err
		}
	}
	return b, nil
}

// read reads a row. Its scores are memory of into.
func (b *batch) read(i int, into *row) {
	into.scores = into.scores[:0]
	for j := range b.columns {
		into.scores = append(into.scores, b.scores(i*b.columns+j))
	}
	into.label, into.weight, into.epsilon = b.labels(i), 1, b.epsilon
	if b.weights != nil {
		into.weight = b.weights(i)
	}
}

// An input says what a metric can read.
type input int

const (
	scores        input = iota // of two classes: any finite numbers, one or two of them; the label is 0 or 1
	probabilities              // likewise from 0 to 1
	classes                    // a score for each class, or one probability; the label is one of the classes
	distribution               // likewise, and the scores are probabilities
	numbers                    // one number; the label is a number
)

// check refuses a row that has no meaning for a metric, and names it. It counts rows from the first that was added.
func (b *batch) check(names Spec, reads input, i int, r *row) error {
	at := b.first + int64(i)
	bad := func(kind fault.Kind, variable string, got float64, want string) error {
		return fault.E(kind, fault.At(names.Kind), fault.Var(variable), fault.Gotf("%v in row %d of all", got, at), fault.Want(want))
	}
	for _, s := range r.scores {
		switch {
		case math.IsNaN(s) || math.IsInf(s, 0):
			return bad(fault.NotFinite, names.Prediction, s, "a finite number")
		case reads == numbers && math.Abs(s) > maxNumber:
			return bad(fault.TooLarge, names.Prediction, s, "at most 1e100")
		case (reads == probabilities || reads == distribution || reads == classes && len(r.scores) == 1) && (s < 0 || s > 1):
			return bad(fault.InvalidArgument, names.Prediction, s, "a probability, 0 to 1")
		}
	}
	if math.IsNaN(r.weight) || r.weight < 0 || r.weight > maxWeight {
		return bad(fault.InvalidArgument, names.Weight, r.weight, "a weight from 0 to 2^32")
	}
	if reads == numbers {
		switch {
		case math.IsNaN(r.label) || math.IsInf(r.label, 0):
			return bad(fault.NotFinite, names.Label, r.label, "a finite number")
		case math.Abs(r.label) > maxNumber:
			return bad(fault.TooLarge, names.Label, r.label, "at most 1e100")
		}
		return nil
	}
	top := max(b.columns, 2) - 1
	if !(r.label >= 0 && r.label <= float64(top)) || r.label != math.Trunc(r.label) {
		want := "0 or 1"
		if top > 1 {
			want = "a class from 0 to " + itoa(top)
		}
		return bad(fault.InvalidArgument, names.Label, r.label, want)
	}
	return nil
}

// checkColumns refuses predictions of another shape than a metric reads.
func (b *batch) checkColumns(names Spec, reads input) error {
	most := map[input]int{scores: 2, probabilities: 2, numbers: 1}[reads]
	if most == 0 || b.columns <= most {
		return nil
	}
	want := map[int]string{1: "one number", 2: "one score, or two of which the last is that of label 1"}[most]
	return fault.E(fault.ShapeMismatch, fault.At(names.Kind), fault.Var(names.Prediction), fault.Gotf("%d scores in a row", b.columns), fault.Want(want))
}
