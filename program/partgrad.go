package program

import (
	"slices"
	"strings"
)

// A partGradient says what the op of the gradient of a part reads and writes.
type partGradient struct {
	reads []string // input and output slots of the part
	from  string   // the output slot whose gradient it reads
	wrt   []string // the input slots whose gradients it writes
}

// partGradients has the parts of which merged ops that train are made. Through others no gradient flows.
var partGradients = map[string]partGradient{
	"dropout":         {[]string{"Mask"}, "Out", []string{"X"}},
	"elementwise_add": {[]string{"X", "Y"}, "Out", []string{"X", "Y"}},
	"gelu":            {[]string{"X"}, "Out", []string{"X"}},
	"layer_norm":      {[]string{"X", "Scale", "Mean", "Variance"}, "Y", []string{"X", "Scale", "Bias"}},
	"matmul":          {[]string{"X", "Y"}, "Out", []string{"X", "Y"}},
	"matmul_v2":       {[]string{"X", "Y"}, "Out", []string{"X", "Y"}},
	"relu":            {[]string{"Out"}, "Out", []string{"X"}},
	"reshape":         {[]string{"X"}, "Out", []string{"X"}},
	"sigmoid":         {[]string{"Out"}, "Out", []string{"X"}},
	"slice":           {[]string{"Input"}, "Out", []string{"Input"}},
	"softmax":         {[]string{"Out"}, "Out", []string{"X"}},
	"tanh":            {[]string{"Out"}, "Out", []string{"X"}},
	"transpose":       {[]string{"X"}, "Out", []string{"X"}},
}

// splitTrainedGrad writes the gradient of one of trainedOps as the gradients of the parts that stand in its place, the last one first.
func splitTrainedGrad(s *splitter) bool {
	opType := strings.TrimSuffix(s.op.Type, "_grad")
	names := trainedOps[opType]
	m, ok := s.merged[mergedKey{opType, s.op.In(names.key)}]
	if !ok {
		return false
	}
	wanted := slots{} // the variables of the gradients of inputs
	for slot := range s.op.Outputs {
		if input, is := strings.CutSuffix(slot, GradSuffix); is && s.wanted(slot) != "" && m.op.In(input) != "" {
			wanted[m.op.In(input)] = s.wanted(slot)
		}
	}
	if len(wanted) == 0 {
		return false
	}
	b := backwardOf(m.parts, wanted)
	b.found[m.op.Out(names.out)] = []string{s.in(gradOf(names.out))}
	for _, part := range slices.Backward(m.parts) {
		b.pass(s, part)
	}
	for input, to := range wanted {
		if len(b.found[input]) == 0 {
			return false
		}
		if list := b.found[input]; list[0] != to {
			s.add("sum", map[string][]string{"X": list}, slots{"Out": to}, nil)
		}
	}
	return true
}

// A backward collects the gradients of variables.
type backward struct {
	wanted slots
	reach  map[string]bool     // variables that depend on inputs whose gradients are wanted
	uses   map[string]int      // how many parts bring a gradient to each
	found  map[string][]string // gradients of each so far
}

func backwardOf(parts []*Op, wanted slots) *backward {
	b := &backward{wanted: wanted, reach: map[string]bool{}, uses: map[string]int{}, found: map[string][]string{}}
	for input := range wanted {
		b.reach[input] = true
	}
	for _, part := range parts {
		g := partGradients[part.Type]
		for _, slot := range g.wrt {
			if name := part.In(slot); b.reach[name] {
				b.reach[part.Out(g.from)] = true
				b.uses[name]++
			}
		}
	}
	return b
}

// pass appends the gradient of a part, if one has arrived at its output.
func (b *backward) pass(s *splitter, part *Op) {
	g := partGradients[part.Type]
	arrived := b.found[part.Out(g.from)]
	if len(arrived) == 0 || !slices.ContainsFunc(g.wrt, func(slot string) bool { return b.reach[part.In(slot)] }) {
		return
	}
	from := arrived[0]
	if len(arrived) > 1 {
		from = s.temporary(part.Out(g.from))
		s.add("sum", map[string][]string{"X": arrived}, slots{"Out": from}, nil)
	}
	in, out := map[string][]string{gradOf(g.from): {from}}, slots{}
	for _, slot := range g.reads {
		if name := part.In(slot); name != "" {
			in[slot] = []string{name}
		} else if name := part.Out(slot); name != "" {
			in[slot] = []string{name}
		}
	}
	for _, slot := range g.wrt {
		name := part.In(slot)
		if !b.reach[name] {
			continue
		}
		to := b.wanted[name]
		if to == "" || b.uses[name] > 1 {
			to = s.temporary(name)
		}
		out[gradOf(slot)] = to
		b.found[name] = append(b.found[name], to)
	}
	attrs := map[string]Attr{}
	for name, value := range part.Attrs {
		if !strings.HasPrefix(name, "op_") {
			attrs[name] = value
		}
	}
	s.add(part.Type+"_grad", in, out, attrs)
}
