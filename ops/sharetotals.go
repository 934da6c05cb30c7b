package ops

import (
	"slices"
	"strings"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// ShareTotals returns a program like p for trainers that have parts of one batch, in which they share the totals that the loss is a function of: by share_totals, before
// what reads them. It returns p itself where gradients can be merged without. The error is that of GradientMerge.
func ShareTotals(p *program.Program) (*program.Program, error) {
	a, err := analyse(p)
	if err != nil || len(a.totals) == 0 {
		return p, err
	}
	p = p.Clone()
	s := &sharing{block: p.Global(), program: p, pending: map[string]*total{}, reads: map[string]bool{}, writes: map[string]bool{},
		drawn: a.drawn, parts: map[string]string{}, scales: map[string]string{}, scaled: map[string]bool{}, slopes: map[string]bool{a.loss + program.GradSuffix: true}}
	ops := s.block.Ops
	s.again = newRecomputed(s.block, ops, a.end)
	s.block.Ops = nil
	for _, op := range ops[:a.end] {
		var made []*total
		for k := range a.totals {
			if a.totals[k].out != "" && slices.Contains(op.OutputNames(), a.totals[k].out) {
				made = append(made, &a.totals[k])
			}
		}
		s.add(op, made)
	}
	s.flush()
	if s.shared > MaxTotalsPlaces {
		return nil, fault.E(fault.Unsupported, fault.Var(a.loss), fault.Gotf("a loss for which trainers share sums and means at %d places", s.shared), fault.Wantf("at most %d", MaxTotalsPlaces),
			fault.Hint("train the model on one machine"))
	}
	for _, op := range ops[a.end:] {
		if err := s.addBackward(op, a.totals); err != nil {
			return nil, err
		}
	}
	return p, s.checkScaled(a)
}

// checkScaled checks that no gradient of a total goes on without its scale.
func (s *sharing) checkScaled(a *analysis) error {
	for i := range a.totals {
		t := &a.totals[i]
		for _, op := range s.block.Ops {
			if t.watched || s.scaled[t.out] || !slices.ContainsFunc(op.OutputNames(), func(name string) bool { return isGradientOf(name, t.out) }) {
				continue
			}
			return At(op, fault.E(fault.Unsupported, fault.Var(t.out), fault.Got("a gradient of a sum or mean over the batch that the gradient of "+t.op.Type+" does not read"),
				fault.Want("the gradients that layers.Minimize appends"), fault.Hint("train the model on one machine")))
		}
	}
	return nil
}

// A sharing writes the ops of a program that shares totals. Ops that only make something of totals which are not shared yet come later, so that few ops share them.
type sharing struct {
	program *program.Program
	block   *program.Block
	pending map[string]*total // by out
	order   []*total
	later   []*program.Op
	reads   map[string]bool // what ops in later read
	writes  map[string]bool
	shared  int               // ops that share
	parts   map[string]string // by out: what a trainer has made of its rows
	scales  map[string]string // by out
	scaled  map[string]bool   // by out: the backward pass reads the scale
	slopes  map[string]bool   // what the backward pass makes of the gradient of the loss
	drawn   map[string]bool   // chosen rows for which dropout draws
	again   *recomputed
}

// add appends an op of the forward pass, which makes some totals or none.
func (s *sharing) add(op *program.Op, made []*total) {
	s.draw(op)
	awaits := slices.ContainsFunc(op.InputNames(), func(name string) bool { return s.pending[name] != nil || s.writes[name] }) ||
		slices.ContainsFunc(op.OutputNames(), func(name string) bool { return s.pending[name] != nil || s.writes[name] || s.reads[name] })
	switch {
	case len(made) == 0 && awaits && s.reduced(op):
		s.later = append(s.later, op)
		for _, name := range op.InputNames() {
			s.reads[name] = true
		}
		for _, name := range op.OutputNames() {
			s.writes[name] = true
		}
		return
	case awaits:
		s.flush()
	}
	s.block.Append(op)
	for _, t := range made {
		v, _ := s.block.Find(t.out)
		t.op = op // of the program that is written
		part := v.Copy(s.program.UniqueName(t.out + ".part"))
		part.Persistable = false
		s.block.EnsureVar(part)
		op.RenameOutput(t.out, part.Name)
		s.parts[t.out] = part.Name
		s.pending[t.out], s.order = t, append(s.order, t)
	}
}

// draw lets dropout draw for chosen rows by their place on the trainer.
func (s *sharing) draw(op *program.Op) {
	if op.Type == "dropout" && s.drawn[s.again.of(op.In("X"))] {
		op.SetAttr("chosen_rows", true)
	}
}

// reduced reports whether an op writes numbers alone, so that nothing of the rows waits for it.
func (s *sharing) reduced(op *program.Op) bool {
	return !slices.ContainsFunc(op.OutputNames(), func(name string) bool {
		v, ok := s.block.Find(name)
		return !ok || Product(v.Dims) != 1 || v.Persistable
	})
}

// flush appends the op that shares what is pending, and then what waits for it.
func (s *sharing) flush() {
	if len(s.order) > 0 {
		op := &program.Op{Type: totalsOp, Inputs: map[string][]string{}, Outputs: map[string][]string{}}
		var means []int32
		var whole []*program.Op // make integers of totals again
		for _, t := range s.order {
			scale := s.program.UniqueName(t.out + ".scale")
			v, _ := s.block.Find(t.out)
			part, out, dtype := s.parts[t.out], t.out, v.DType
			if v.Persistable { // the state is that of the step before until the totals are there
				c := v.Copy(s.program.UniqueName(t.out + ".total"))
				c.Persistable, c.StopGradient = false, true
				out = s.block.EnsureVar(c).Name
				set := &program.Op{Type: "assign", Inputs: map[string][]string{"X": {out}}, Outputs: map[string][]string{"Out": {t.out}}}
				set.SetLine(t.op.Line())
				whole = append(whole, set)
			}
			if !t.mean && (dtype == tensor.Int32 || dtype == tensor.Int64) {
				dtype = tensor.Float64
				part, out = s.asFloat(v, part), s.asFloat(v, out)
				s.block.Append(s.cast(t, s.parts[t.out], v.DType, part, dtype))
				whole = append(whole, s.cast(t, out, dtype, t.out, v.DType))
			}
			s.block.EnsureVar(program.Var{Name: scale, Kind: program.LoDTensor, DType: scaleType(dtype), Dims: []int64{1}, StopGradient: true})
			s.scales[t.out] = scale
			op.Inputs["X"], op.Inputs["Over"] = append(op.Inputs["X"], part), append(op.Inputs["Over"], s.count(t))
			op.Outputs["Out"], op.Outputs["Scale"] = append(op.Outputs["Out"], out), append(op.Outputs["Scale"], scale)
			mean := int32(0)
			if t.mean {
				mean = 1
			}
			means = append(means, mean)
		}
		op.SetAttr("means", means)
		op.SetAttr("place", int32(s.shared))
		op.SetLine(s.order[0].op.Line())
		role := program.RoleForward
		for _, t := range s.order {
			role |= t.op.Role() & program.RoleLoss // then executors refuse a total that is not finite
			t.op.SetRole(t.op.Role() &^ program.RoleLoss)
		}
		op.SetRole(role)
		s.block.Append(op)
		s.block.Ops = append(s.block.Ops, whole...)
		s.shared++
	}
	s.block.Ops = append(s.block.Ops, s.later...)
	s.order, s.later = nil, nil
	clear(s.pending)
	clear(s.reads)
	clear(s.writes)
}

// count names the variable that tells share_totals how many elements a total reduces: the elements themselves, or their number (int64 [1]). An op counts rows that are chosen or found, because
// shapes do not tell how many there are, and rows of int64, because share_totals would take a single one for a number.
func (s *sharing) count(t *total) string {
	if v, ok := s.block.Find(t.over); !t.late && ok && v.DType != tensor.Int64 {
		return t.over
	}
	name := s.program.UniqueName(t.over + ".size")
	s.block.EnsureVar(program.Var{Name: name, Kind: program.LoDTensor, DType: tensor.Int64, Dims: []int64{1}, StopGradient: true})
	size := s.block.Append(&program.Op{Type: "size", Inputs: map[string][]string{"Input": {t.over}}, Outputs: map[string][]string{"Out": {name}}})
	size.SetLine(t.op.Line())
	return name
}

// asFloat declares a variable in which an integer of the name travels, as float64: integers below 2^53 are exact.
func (s *sharing) asFloat(v *program.Var, name string) string {
	c := v.Copy(s.program.UniqueName(name + ".float"))
	c.DType, c.Persistable = tensor.Float64, false
	return s.block.EnsureVar(c).Name
}

// cast returns the op that gives the part of a total, or the total, another type.
func (s *sharing) cast(t *total, from string, in tensor.DType, to string, out tensor.DType) *program.Op {
	op := &program.Op{Type: "cast", Inputs: map[string][]string{"X": {from}}, Outputs: map[string][]string{"Out": {to}}}
	op.SetAttr("in_dtype", int32(in))
	op.SetAttr("out_dtype", int32(out))
	op.SetLine(t.op.Line())
	return op
}

// scaleType is the type of the scale of a total.
func scaleType(d tensor.DType) tensor.DType {
	if d == tensor.Float64 {
		return d
	}
	return tensor.Float32
}

// addBackward appends an op of the backward pass or the update. The gradient of what has made a part of a total takes that of the total times the scale. An op that makes
// a total again is left out.
func (s *sharing) addBackward(op *program.Op, totals []total) error {
	for _, name := range op.InputNames() {
		if _, shared := s.parts[s.again.of(name)]; shared {
			op.RenameInput(name, s.again.of(name))
		}
	}
	if op.Role().Has(program.RoleBackward) {
		s.again.note(op)
		s.draw(op)
		if len(op.OutputNames()) == 1 && s.parts[s.again.of(op.OutputNames()[0])] != "" {
			return nil
		}
	}
	if s.makesAgain(op) {
		return At(op, fault.E(fault.Unsupported, fault.Var(op.In("X")), fault.Got("a sum or mean over the batch that the backward pass makes again"),
			fault.Want("a backward pass that reads what the forward pass has made"), fault.Hint("train on one machine")))
	}
	for i := range totals {
		if t := &totals[i]; t.watched && op.Role().Has(program.RoleBackward) && slices.Contains(op.OutputNames(), t.out) {
			// A trainer would move it by its own rows, and no weight is that of these.
			return At(op, fault.E(fault.Unsupported, fault.Var(t.out), fault.Got("state of rows that data chooses, which the backward pass moves again when it computes "+op.Type+" again"),
				fault.Want("a backward pass that reads what the forward pass has made of them"), fault.Hint("choose checkpoints of the recomputation before which there is no such "+op.Type+", or train on one machine")))
		} else if !t.watched && op.Type == t.op.Type+"_grad" && s.again.of(op.In("X")) == t.over {
			s.scale(op, t)
		}
	}
	s.block.Append(op)
	return nil
}

// makesAgain reports whether an op of the backward pass reduces rows of the batch, and not a gradient: trainers would go on with the number of their own rows.
func (s *sharing) makesAgain(op *program.Op) bool {
	if !op.Role().Has(program.RoleBackward) {
		return false
	}
	if slices.ContainsFunc(op.InputNames(), func(name string) bool { return s.slopes[name] }) {
		for _, name := range op.OutputNames() {
			s.slopes[name] = true
		}
		return false
	}
	open := func(name string) bool {
		v, ok := s.block.Find(name)
		return ok && slices.Contains(v.Dims, program.Unknown)
	}
	return slices.Contains(totalOps, op.Type) && open(op.In("X")) && !slices.ContainsFunc(op.OutputNames(), open)
}

// scale lets the gradient op of a total read the scaled gradient.
func (s *sharing) scale(op *program.Op, t *total) {
	for slot, names := range op.Inputs {
		if !strings.HasSuffix(slot, program.GradSuffix) || len(names) != 1 || !isGradientOf(names[0], t.out) {
			continue
		}
		v, ok := s.block.Find(names[0])
		if !ok {
			continue
		}
		scaled := v.Copy(s.program.UniqueName(names[0] + ".scaled"))
		s.block.EnsureVar(scaled)
		multiply := s.block.Append(&program.Op{Type: "scale", Inputs: map[string][]string{"X": names, "ScaleTensor": {s.scales[t.out]}},
			Outputs: map[string][]string{"Out": {scaled.Name}}})
		multiply.SetRole(program.RoleBackward)
		multiply.SetLine(op.Line())
		op.Inputs[slot] = []string{scaled.Name}
		op.RenameInput(t.out, s.parts[t.out])
		s.scaled[t.out] = true
	}
}

// isGradientOf reports whether a name is that of a gradient of a variable, as Fluid and EDL name gradients.
func isGradientOf(name, of string) bool { return strings.HasPrefix(name, of+program.GradSuffix) }
