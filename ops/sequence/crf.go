package sequence

import (
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// mostTags bounds the tags of a conditional random field: their pairs are a matrix.
const mostTags = 1 << 14

const (
	emissionDoc   = "float [rows, D], sequences of scores of D tags; or [sequences, longest, D] with Length"
	transitionDoc = "[D+2, D]: scores of the first tag, of the last tag, and of a tag (column) after another one (row)"
	lengthDoc     = "int64, the rows of each sequence that count; without it the LoD of Emission says so"
)

func init() {
	opkit.Register(ops.Def{
		Type: "linear_chain_crf",
		Doc: "Computes the negative logarithm of the probability of the labels of each sequence in a linear-chain conditional random field (Lafferty et al. " +
			"2001): the logarithm of the sum of e**score over all tags, minus the score of the labels. The score of tags t is Transition[0][t0] + sum of " +
			"Emission[k][tk] + sum of Transition[2 + t(k-1)][tk] + Transition[1][t(n-1)]. A sequence without rows costs 0.",
		Inputs: []ops.Slot{
			{Name: "Emission", Doc: emissionDoc},
			{Name: "Transition", Doc: transitionDoc},
			{Name: "Label", Doc: "int64, the tag of each row"},
			{Name: "Length", Doc: lengthDoc, Dispensable: true}},
		Outputs: []ops.Slot{
			{Name: "Alpha", Doc: "as Emission: e**score of all tags up to a row, by its tag, divided by their sum", Intermediate: true},
			{Name: "EmissionExps", Doc: "as Emission: e**(Emission - largest of the row)", Intermediate: true},
			{Name: "TransitionExps", Doc: "e**Transition", Intermediate: true},
			{Name: "LogLikelihood", Doc: "[sequences, 1], the cost"}},
		Infer: func(s *ops.Shapes) error {
			sequences, err := checkCRF(s)
			if err != nil {
				return err
			}
			s.Like("Alpha", "Emission")
			s.Like("EmissionExps", "Emission")
			s.Like("TransitionExps", "Transition")
			s.Set("LogLikelihood", s.In("Emission").DType, sequences, 1)
			if !s.Has("Length") {
				s.PoolLoD("LogLikelihood", "Emission")
			}
			return nil
		},
		Cost: crfCost,
		Bind: opkit.BindFloats("Emission", bindCRF[float32], bindCRF[float64]),
	}, opkit.Gradient{
		Doc: "the probability of each tag of a row, and of each pair of tags of neighbouring rows (forward-backward), minus 1 at the labels, times the " +
			"gradient of the sequence.",
		Inputs:  []string{"Emission", "Transition", "Label", "Length"},
		Outputs: []string{"Alpha", "EmissionExps", "TransitionExps"},
		Wrt:     []string{"Emission", "Transition"},
		Cost:    crfCost,
		Bind:    opkit.BindFloats("Emission", bindCRFGrad[float32], bindCRFGrad[float64]),
	})
	ops.Register(ops.Def{
		Type: "crf_decoding",
		Doc: "Finds the tags with the largest score in a linear-chain conditional random field (Viterbi 1967): see linear_chain_crf. With Label it tells for " +
			"each row whether the tag is that of Label: 1, or 0. No gradient flows through it.",
		Inputs: []ops.Slot{
			{Name: "Emission", Doc: emissionDoc},
			{Name: "Transition", Doc: transitionDoc},
			{Name: "Label", Doc: "int64, the tag of each row", Dispensable: true},
			{Name: "Length", Doc: lengthDoc, Dispensable: true}},
		Outputs: []ops.Slot{{Name: "ViterbiPath", Doc: "int64 [rows, 1], or [sequences, longest] with Length; 0 beyond the length"}},
		Infer: func(s *ops.Shapes) error {
			if _, err := checkCRF(s); err != nil {
				return err
			}
			rows := s.In("Emission").Dims
			if s.Has("Length") {
				s.Set("ViterbiPath", tensor.Int64, rows[:2]...)
				return nil
			}
			s.Set("ViterbiPath", tensor.Int64, rows[0], 1)
			s.ShareLoD("ViterbiPath", "Emission")
			return nil
		},
		Cost: crfCost,
		Bind: opkit.BindFloats("Emission", bindDecoding[float32], bindDecoding[float64]),
	})
}

// checkCRF checks the inputs of both ops and returns the number of sequences.
func checkCRF(s *ops.Shapes) (sequences int64, err error) {
	padded := s.Has("Length")
	rank := 2
	if padded {
		rank = 3
	}
	for _, slot := range []struct {
		name string
		rank int
	}{{"Emission", rank}, {"Transition", 2}} {
		if err := s.Rank(slot.name, slot.rank); err != nil {
			return 0, err
		}
	}
	if err := s.IsFloat("Emission"); err != nil {
		return 0, err
	}
	if err := s.SameType("Emission", "Transition"); err != nil {
		return 0, err
	}
	x, w := s.In("Emission"), s.In("Transition")
	n := x.Dims[rank-1]
	if n == program.Unknown {
		n = w.Dims[1]
	}
	rowsOf := int64(program.Unknown)
	if n != program.Unknown {
		if n < 1 || n > mostTags {
			return 0, s.Errorf("Emission", "1 to %d tags in the last dim", mostTags)
		}
		rowsOf = n + 2
	}
	if !ops.Compatible(w.Dims, []int64{rowsOf, n}) {
		return 0, s.Errorf("Transition", "dims [%d %d], for the %d tags of Emission", rowsOf, n, n)
	}
	rows := x.Dims[:rank-1]
	if s.Has("Label") {
		if err := opkit.CheckType(s, "Label", s.In("Label").DType == tensor.Int64, "int64"); err != nil {
			return 0, err
		}
		label := s.In("Label").Dims
		if len(label) == rank && ops.Compatible(label[rank-1:], []int64{1}) {
			label = label[:rank-1]
		}
		if !ops.Compatible(label, rows) {
			return 0, s.Errorf("Label", "a tag for each row of Emission %v", x.Dims)
		}
	}
	sequences = rows[0]
	if padded {
		length := s.In("Length")
		if err := opkit.CheckType(s, "Length", length.DType == tensor.Int64, "int64"); err != nil {
			return 0, err
		}
		if len(length.Dims) < 1 || len(length.Dims) > 2 || !opkit.Agree(length.Dims[0], sequences) || len(length.Dims) == 2 && !opkit.Agree(length.Dims[1], 1) {
			return 0, s.Errorf("Length", "one number for each sequence of Emission %v", x.Dims)
		}
	} else {
		if sequences, err = s.CountSequences("Emission"); err != nil {
			return 0, err
		}
	}
	return sequences, nil
}

func crfCost(s *ops.Shapes) ops.Cost {
	x := s.In("Emission").Dims
	return ops.Cost{Flops: opkit.Size([]int64{opkit.Size(x), 2 * max(1, x[len(x)-1])}), Bytes: opkit.Bytes(s)}
}

// A crf is a bound conditional random field. Its rows are those of sequences with a LoD, or of padded ones.
type crf[T tensor.Float] struct {
	spans
	tags                                int
	transition, labels                  *tensor.Tensor
	alpha, emissionExps, transitionExps *tensor.Tensor
	back                                *tensor.Tensor  // nil before the gradient needs it
	fields                              []kernel.CRF[T] // of each part, over the memory of the run
}

func newCRF[T tensor.Float](b *ops.Binding) *crf[T] {
	c := &crf[T]{spans: spansIn(b, "Emission", "Length"), transition: b.In("Transition"), labels: b.In("Label"), fields: make([]kernel.CRF[T], b.Parts())}
	dims := c.value.Dims()
	c.tags = int(dims[len(dims)-1])
	return c
}

// field returns the field over the memory of this run.
func (c *crf[T]) field(part int) *kernel.CRF[T] {
	f, n, w := &c.fields[part], c.tags, tensor.Data[T](c.transition)
	*f = kernel.CRF[T]{N: n, Start: w[:n], End: w[n : 2*n], Between: w[2*n:], Scores: tensor.Data[T](c.value), Alpha: tensor.Data[T](c.alpha)}
	if c.transitionExps != nil {
		e := tensor.Data[T](c.transitionExps)
		f.StartExp, f.EndExp, f.Steps, f.EmissionExp = e[:n], e[n:2*n], e[2*n:], tensor.Data[T](c.emissionExps)
	}
	if c.back != nil {
		f.Back = tensor.Data[T](c.back)
	}
	return f
}

// eachSequence is the loop over sequences. do gets the labels of the batch, of which those of the sequence are tags; nil without labels.
func (c *crf[T]) eachSequence(writes []string, do func(f *kernel.CRF[T], part, sequence, from, to int, labels []int64)) ops.Loop {
	return ops.Loop{N: c.n, Apart: true, Writes: writes, Run: func(part, first, end int) error {
		starts, err := c.starts()
		if err != nil {
			return err
		}
		f := c.field(part)
		for i := first; i < end; i++ {
			from, to, err := c.span(starts, i)
			if err != nil {
				return err
			}
			var labels []int64
			if c.labels != nil {
				labels = c.labels.Int64s()
				if err := opkit.CheckIDs(c.op, c.op.In("Label"), labels[from:to], from, int64(c.tags)); err != nil {
					return err
				}
			}
			do(f, part, i, from, to, labels)
		}
		return nil
	}}
}

// wantedOr returns a tensor, or memory for as many elements as another one has where nobody wants it.
func wantedOr(b *ops.Binding, t, like *tensor.Tensor) *tensor.Tensor {
	if t == nil {
		return b.Scratch(like.DType(), like.Len())
	}
	return t
}

// beyond clears the rows of a padded sequence that do not count: those from to on.
func (c *crf[T]) beyond(t *tensor.Tensor, sequence, to, width int) {
	if c.length != nil {
		clear(tensor.Data[T](t)[to*width : (sequence+1)*c.longest*width])
	}
}

func bindCRF[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	c, cost := newCRF[T](b), b.Out("LogLikelihood")
	c.alpha, c.emissionExps = wantedOr(b, b.Out("Alpha"), c.value), wantedOr(b, b.Out("EmissionExps"), c.value)
	exps := b.Out("TransitionExps")
	c.transitionExps = b.Scratch(tensor.Of[T](), c.transition.Len()) // a loop reads inputs and scratch, but not what another loop writes
	return b.Loops(
		ops.Loop{N: 1, Reads: []string{"Transition"}, Writes: []string{}, Run: func(int, int, int) error {
			kernel.Exp(tensor.Data[T](c.transitionExps), tensor.Data[T](c.transition))
			return nil
		}},
		ops.Loop{N: 1, Reads: []string{}, Writes: []string{"TransitionExps"}, Run: func(int, int, int) error {
			copy(opkit.Data[T](exps), tensor.Data[T](c.transitionExps))
			return nil
		}},
		c.eachSequence([]string{"Alpha", "EmissionExps", "LogLikelihood"}, func(f *kernel.CRF[T], _, sequence, from, to int, labels []int64) {
			total := kernel.CRFForward(f, labels, from, to)
			c.beyond(c.alpha, sequence, to, c.tags)
			c.beyond(c.emissionExps, sequence, to, c.tags)
			if cost != nil {
				tensor.Data[T](cost)[sequence] = total
			}
		}))
}

func bindCRFGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	c, of := newCRF[T](b), tensor.Of[T]()
	dcost, dx, dw, n := b.In("LogLikelihood@GRAD"), b.Out("Emission@GRAD"), b.Out("Transition@GRAD"), c.tags
	c.alpha, c.emissionExps, c.transitionExps = b.In("Alpha"), b.In("EmissionExps"), b.In("TransitionExps")
	c.back = b.Scratch(of, n*n)
	joint, work := b.Scratch(of, c.value.Len()), b.Scratch(of, b.Parts()*2*n)
	gradient := b.Scratch(of, c.value.Len())
	loops := []ops.Loop{
		{N: 1, Reads: []string{"TransitionExps"}, Writes: []string{}, Run: func(int, int, int) error {
			f := c.field(0)
			for i := range n {
				for j := range n {
					f.Back[i*n+j] = f.Steps[j*n+i]
				}
			}
			return nil
		}},
		c.eachSequence([]string{}, func(f *kernel.CRF[T], part, sequence, from, to int, labels []int64) {
			kernel.CRFBackward(f, tensor.Data[T](gradient), tensor.Data[T](joint), ops.Part(tensor.Data[T](work), part, 2*n), labels,
				tensor.Data[T](dcost)[sequence], from, to)
			c.beyond(gradient, sequence, to, n)
		}),
		{N: 1, Reads: []string{}, Writes: []string{"Emission@GRAD"}, Run: func(int, int, int) error {
			copy(opkit.Data[T](dx), tensor.Data[T](gradient))
			return nil
		}},
	}
	if dw == nil {
		return b.Loops(loops...)
	}
	// A row of the gradient adds up all sequences in their order, whoever does it.
	return b.Loops(append(loops, ops.Loop{N: n + 2, Apart: true, Writes: []string{"Transition@GRAD"}, Run: func(part, first, end int) error {
		starts, err := c.starts()
		if err != nil {
			return err
		}
		f := c.field(part)
		for i := first; i < end; i++ {
			to := row(tensor.Data[T](dw), i, n)
			clear(to)
			for sequence := range c.n {
				from, until, err := c.span(starts, sequence)
				if err != nil {
					return err
				}
				switch {
				case from == until:
				case i == 0:
					kernel.Axpy(to, row(tensor.Data[T](gradient), from, n), 1)
				case i == 1:
					kernel.Axpy(to, row(tensor.Data[T](gradient), until-1, n), 1)
				default:
					kernel.CRFStepGrad(f, to, tensor.Data[T](joint), ops.Part(tensor.Data[T](work), part, 2*n), c.labels.Int64s(),
						tensor.Data[T](dcost)[sequence], i-2, from, until)
				}
			}
		}
		return nil
	}})...)
}

func bindDecoding[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	c, path := newCRF[T](b), b.Out("ViterbiPath")
	if path == nil {
		path = b.Scratch(tensor.Int64, c.value.Len()/c.tags)
	}
	came := b.Scratch(tensor.Int32, c.value.Len())
	c.alpha = b.Scratch(tensor.Of[T](), c.value.Len())
	return b.Loops(c.eachSequence(nil, func(f *kernel.CRF[T], _, sequence, from, to int, labels []int64) {
		tags := path.Int64s()
		kernel.CRFDecode(f, tags, came.Int32s(), from, to)
		if c.length != nil {
			clear(tags[to : (sequence+1)*c.longest])
		}
		if labels == nil {
			return
		}
		for k := from; k < to; k++ {
			same := int64(0)
			if tags[k] == labels[k] {
				same = 1
			}
			tags[k] = same
		}
	}))
}
