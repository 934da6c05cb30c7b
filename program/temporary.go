package program

import "strings"

// unmark makes temporaries of variables that are declared persistable and that each step computes anew from its batch. Fluid marks the loss and its gradient so, and
// its users mark what they fetch, so that no pass reuses the memory. Such a variable is no state: nothing reads what the step before has left, and no startup program
// gives it a value. A cluster would have to merge it over trainers, as it does with state.
func unmark(p *Program) {
	started := map[string]bool{}
	if p.Startup != nil {
		for _, op := range p.Startup.Global().Ops {
			for _, name := range op.OutputNames() {
				started[name] = true
			}
		}
	}
	global := p.Global()
	uses, ofBatch := global.Uses(), map[string]bool{}
	for _, v := range global.Vars() {
		ofBatch[v.Name] = !v.Persistable && len(uses[v.Name].Writers) == 0
	}
	for at, op := range global.Ops {
		reads, writes := global.Touches(op)
		varies := op.Type == "read" || op.Type == "feed"
		for name := range reads {
			varies = varies || ofBatch[name]
		}
		for name := range writes {
			ofBatch[name] = ofBatch[name] || varies
			v, ok := global.Var(name)
			use := uses[name]
			anew := use.Writers[0] == at && (len(use.Readers) == 0 || use.Readers[0] > at) && len(op.SubBlocks()) == 0
			if ok && anew && !started[name] && v.Kind == LoDTensor && (varies || strings.HasSuffix(name, "@GRAD")) {
				v.Persistable = false
			}
		}
	}
}
