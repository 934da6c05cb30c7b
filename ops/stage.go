package ops

import (
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
