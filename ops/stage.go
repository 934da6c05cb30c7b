package ops

import (
	"slices"
	"strings"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
)

// A stageRule is one row of the table of legal programs: which ops may stand where at one stage, and in which order.
type stageRule struct {
	startup program.Stage // stage of the startup program that a program of this stage carries
	fed     bool          // a variable that no op writes may be read: it comes from a feed or from the network
	global  []Class       // classes that are legal in the global block
	inner   []Class       // and in the others
	refused []string      // op types that are not legal although their class is
	once    []string      // op types that come once at most
	needs   []order       // no first without a second
	before  []order       // no first behind a second, in one block
	shape   func(p *program.Program, report func(*fault.Fault))
}

// An order is a pair of op types.
type order struct{ first, second string }

// stages is the table. Nothing outside of the process is touched by a program that was sent to a node: files are for local stages.
var stages = map[program.Stage]stageRule{
	program.StageLocal: {
		startup: program.StageStartup,
		fed:     true,
		global:  []Class{Compute, Backward, Random, Optimize, Feed, Read, FileIO},
		inner:   []Class{Compute, Backward, Random, Optimize},
	},
	program.StageStartup: {
		startup: program.StageStartup,
		global:  []Class{Compute, Random, Read, FileIO},
		inner:   []Class{Compute, Random},
	},
	program.StageInference: {
		startup: program.StageStartup,
		global:  []Class{Compute, Random, Feed},
		inner:   []Class{Compute, Random},
	},
	program.StageTrainer: {
		startup: program.StageTrainerStartup,
		fed:     true,
		global:  []Class{Compute, Backward, Random, Feed, Read, Dist},
		inner:   []Class{Compute, Backward, Random},
		refused: []string{"listen_and_serv"},
		once:    []string{"send_barrier", "fetch_barrier"},
		needs:   []order{{"recv", "send"}, {"send_barrier", "send"}, {"fetch_barrier", "recv"}},
		before:  []order{{"send", "send_barrier"}, {"send_barrier", "recv"}, {"recv", "fetch_barrier"}},
	},
	program.StageTrainerStartup: {
		startup: program.StageTrainerStartup,
		global:  []Class{Compute, Random, Read, Dist},
		inner:   []Class{Compute, Random},
		refused: []string{"send", "send_barrier", "listen_and_serv"},
		once:    []string{"fetch_barrier"},
		needs:   []order{{"fetch_barrier", "recv"}},
		before:  []order{{"recv", "fetch_barrier"}},
	},
	program.StageSave: {
		startup: program.StageTrainerStartup,
		global:  []Class{Compute, Dist, FileIO},
		refused: []string{"send", "send_barrier", "listen_and_serv", "load", "load_combine"},
		once:    []string{"fetch_barrier"},
		needs:   []order{{"fetch_barrier", "recv"}},
		before:  []order{{"recv", "fetch_barrier"}},
	},
	program.StagePServer: {
		startup: program.StagePServerStartup,
		fed:     true,
		global:  []Class{Serve},
		inner:   []Class{Compute, Random, Optimize, Dist},
		refused: []string{"send", "send_barrier", "recv", "fetch_barrier"},
		once:    []string{"listen_and_serv"},
		shape:   servesBlocks,
	},
	program.StagePServerStartup: {
		startup: program.StagePServerStartup,
		global:  []Class{Compute, Random},
		inner:   []Class{Compute, Random},
	},
}

// servesBlocks checks that a pserver program serves, and that the blocks it would run are there.
func servesBlocks(p *program.Program, report func(*fault.Fault)) {
	serve := slices.IndexFunc(p.Global().Ops, func(op *program.Op) bool { return op.Type == "listen_and_serv" })
	if serve < 0 {
		report(fault.E(fault.InvalidProgram, fault.At("block 0"), fault.Got("no listen_and_serv"), fault.Want("one in a pserver program")))
		return
	}
	op := p.Global().Ops[serve]
	if blocks, ok := op.Attrs["optimize_blocks"].([]program.BlockIndex); !ok || len(blocks) == 0 {
		report(fault.E(fault.InvalidProgram, fault.At(program.WhereOp(0, serve)), fault.On(op),
			fault.Got("no optimize_blocks"), fault.Want("the blocks to run when gradients have arrived")))
	}
}

// checkOp checks one op against the rule: its class, and that its type is not refused.
func (r stageRule) checkOp(stage program.Stage, b *program.Block, def *Def) *fault.Fault {
	legal := r.global
	if b.Index != 0 {
		legal = r.inner
	}
	if slices.Contains(legal, def.Class) && !slices.Contains(r.refused, def.Type) {
		return nil
	}
	names := make([]string, len(legal))
	for i, c := range legal {
		names[i] = c.String()
	}
	return fault.E(fault.InvalidProgram, fault.Gotf("%s, of class %v, in block %d of a %v program", def.Type, def.Class, b.Index, stage),
		fault.Wantf("%s, but not %s", strings.Join(names, ", "), orNothing(r.refused)))
}

func orNothing(names []string) string {
	if len(names) == 0 {
		return "others"
	}
	return strings.Join(names, ", ")
}

// checkShape checks what the program as a whole must look like at the stage.
func (r stageRule) checkShape(p *program.Program, report func(*fault.Fault)) {
	present := map[string]bool{}
	for _, b := range p.Blocks {
		r.checkOrder(b, present, report)
	}
	for _, need := range r.needs {
		if present[need.first] && !present[need.second] {
			report(fault.E(fault.InvalidProgram, fault.Op(need.first), fault.Got("no "+need.second+" in the program"),
				fault.Want("one, or this op waits for ever")))
		}
	}
	if r.shape != nil {
		r.shape(p, report)
	}
}

// checkOrder walks one block and adds the types of its ops to present.
func (r stageRule) checkOrder(b *program.Block, present map[string]bool, report func(*fault.Fault)) {
	behind := map[string]bool{}
	for i, op := range b.Ops {
		wrong := func(got, want string) {
			report(fault.E(fault.InvalidProgram, fault.At(program.WhereOp(b.Index, i)), fault.On(op), fault.Got(got),
				fault.Want(want)))
		}
		if present[op.Type] && slices.Contains(r.once, op.Type) {
			wrong("a second one", "one in a program")
		}
		for _, o := range r.before {
			if o.first == op.Type && behind[o.second] {
				wrong("this op behind "+o.second, "it before")
			}
		}
		present[op.Type], behind[op.Type] = true, true
	}
}
