package ops

import (
	"strings"

	"github.com/edl-go/edl/program"
)

// Paired are two variables of a batch whose rows form sequences, and an op that combines what follows from them row by row: the words of a sentence with their weights, or with the words that
// follow them. Row r of one belongs to row r of the other only if each record has as many rows in both.
type Paired struct {
	A, B             string
	LevelsA, LevelsB int // LoD levels that divide the rows which the op combines; fewer than the variable has where its inner sequences have become rows
	By               *program.Op
}

// PairedSequences returns such variables of a program that reads or is fed. Who divides a batch among trainers by its records relies on what it says: otherwise other rows
// would meet on a trainer than on one machine.
func PairedSequences(p *program.Program) []Paired {
	block := p.Global()
	if !readsSequences(block) {
		return nil
	}
	var pairs []Paired
	seen := map[Paired]bool{} // without By
	forward := forwardOps(block)
	r := newReductions(block, forward)
	for _, op := range forward {
		first, levels := "", 0
		for _, name := range rowsOf(op) {
			m, _ := r.typeOf(name)
			if v, ok := block.Var(m.LoDOf); m.LoDLevel == 0 || !ok || v.LoDLevel == 0 || r.writers[m.LoDOf] != nil && !r.records.fed(m.LoDOf) {
				continue
			}
			if first == "" {
				first, levels = m.LoDOf, m.LoDLevel
			}
			pair := Paired{A: first, B: m.LoDOf, LevelsA: levels, LevelsB: m.LoDLevel}
			if first != m.LoDOf && !seen[pair] {
				seen[pair] = true
				pair.By = op
				pairs = append(pairs, pair)
			}
		}
	}
	return pairs
}

// rowsOf lists the inputs that an op combines row by row.
func rowsOf(op *program.Op) []string {
	if slot, ok := labelled[op.Type]; ok {
		return []string{op.In(slot), op.In("Label")}
	}
	axis, _ := op.Int("axis")
	switch {
	case strings.HasPrefix(op.Type, "elementwise_"), op.Type == "cos_sim", op.Type == "dot":
		return []string{op.In("X"), op.In("Y")}
	case op.Type == "sum", op.Type == "concat" && axis != 0:
		return op.Inputs["X"]
	}
	return nil
}
