package ops

import (
	"slices"
	"strings"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
)

// A stageRule is one row of the table of stages: which ops are legal at a stage, where, and in which order.
type stageRule struct {
	startup program.Stage // stage of the startup program
	fed     bool          // ops may read variables that no op writes; they come from a feed or from the network
	global  []Class       // legal classes in the global block
	inner   []Class       // legal classes in the other blocks
	refused []string      // op types that are illegal although their class is legal
	once    []string      // op types that may stand in a program at most once
	needs   []order       // if a program has the first op, it has the second too
	before  []order       // in a block, the first op stands before the second
	shape   func(p *program.Program, report func(*fault.Fault))
}

// An order names two op types.
type order struct{ first, second string }

// stages is the table. Ops that touch files are legal only in stages that run locally: a program that is sent to a node touches nothing outside of
// its process.
var stages = map[program.Stage]stageRule{
	program.StageLocal: {
		startup: program.StageStartup,
		fed:     true,
		global:  []Class{Compute, Backward, Random, Optimize, Feed, Read, FileIO, Control},
		inner:   []Class{Compute, Backward, Random, Optimize, Control},
	},
	program.StageStartup: {
		startup: program.StageStartup,
		global:  []Class{Compute, Random, Read, FileIO, Control},
		inner:   []Class{Compute, Random, Control},
	},
	program.StageInference: {
		startup: program.StageStartup,
		global:  []Class{Compute, Random, Feed, Control},
		inner:   []Class{Compute, Random, Control},
	},
	program.StageTrainer: {
		startup: program.StageTrainerStartup,
		fed:     true,
		global:  []Class{Compute, Backward, Random, Feed, Read, Dist, Control},
		inner:   []Class{Compute, Backward, Random, Control},
		refused: []string{"listen_and_serv"},
		once:    []string{"merge_devices", "send_barrier", "fetch_barrier"},
		needs:   []order{{"recv", "send"}, {"send_barrier", "send"}, {"fetch_barrier", "send"}},
		before: []order{{"merge_devices", "send"}, {"send", "send_barrier"}, {"send_barrier", "recv"}, {"recv", "fetch_barrier"},
			{"send_barrier", "fetch_barrier"}},
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
		inner:   []Class{Compute, Random, Optimize, Dist, Control},
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

// servesBlocks checks that a pserver program has a listen_and_serv op with blocks to run.
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

// checkOp checks the class and the type of one op.
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

// checkTranspiled refuses ops of a program that a transpiler has divided, where a whole program is wanted. Fluid writes such programs, too; they are not wrong.
func (r stageRule) checkTranspiled(stage program.Stage, op *program.Op, def *Def) *fault.Fault {
	if op.Type == "lookup_sparse_table" && len(op.Inputs["Keys"]) == 0 { // ours has them
		return fault.E(fault.Unsupported, fault.On(op), fault.Got("a table that grows while it is read, which a transpiler has made of lookup_table"),
			fault.Want("lookup_table, or a table of layers.SparseEmbedding"), fault.Hint(beforeTranspiled))
	}
	if def.Class != Dist && def.Class != Serve || stage != program.StageLocal && stage != program.StageStartup && stage != program.StageInference {
		return nil
	}
	return fault.E(fault.Unsupported, fault.On(op), fault.Gotf("%s, of class %v, in a %v program: a part of a job, which a transpiler has written", def.Type, def.Class, stage),
		fault.Want("the whole program"), fault.Hint(beforeTranspiled))
}

// beforeTranspiled says what to do with a program that a transpiler has divided.
const beforeTranspiled = "save fluid.default_main_program().clone() before DistributeTranspiler().transpile(...), which changes the program itself, or minimize without fleet.distributed_optimizer, and give that: " +
	"edl run --remote and edl transpile divide programs by themselves"

func orNothing(names []string) string {
	if len(names) == 0 {
		return "others"
	}
	return strings.Join(names, ", ")
}

// checkShape checks the program as a whole.
func (r stageRule) checkShape(p *program.Program, report func(*fault.Fault)) {
	present := map[string]bool{}
	for _, b := range p.Blocks {
		r.checkOrder(b, present, report)
	}
	for _, need := range r.needs {
		if present[need.first] && !present[need.second] {
			report(fault.E(fault.InvalidProgram, fault.Op(need.first), fault.Got("no "+need.second+" in the program"),
				fault.Want("one, because this op waits for it")))
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
				wrong("this op after "+o.second, "it before that op")
			}
		}
		present[op.Type], behind[op.Type] = true, true
	}
}
