package ops

import (
	"testing"

	"github.com/edl-go/edl/program"
)

// sequence appends one op of each type. All read x and write x.
func sequence(t *testing.T, opTypes ...string) draft {
	d := newDraft(t, "persistable x")
	for _, opType := range opTypes {
		op := d.op(d.p.Global(), opType, "x", "x")
		if opType == "save" {
			op.Outputs = nil
		}
	}
	return d
}

func TestStagesAllowTheirClassesAndOrders(t *testing.T) {
	testOps(t)
	tests := []struct {
		stage program.Stage
		ops   []string
		want  []string
	}{
		{program.StageLocal, []string{"feed", "relu", "relu_grad", "sgd", "save"}, nil},
		{program.StageLocal, []string{"send"}, []string{"unsupported; send, of class Dist, in a local program; transpiler; want the whole program; save fluid.default_main_program().clone() before"}},
		{program.StageLocal, []string{"checkpoint_notify"}, []string{"unsupported; transpiler; want the whole program; save fluid.default_main_program().clone() before"}},
		{program.StageInference, []string{"feed", "relu"}, nil},
		{program.StageInference, []string{"relu_grad", "sgd"}, []string{"op 0; class Backward", "op 1; class Optimize"}},
		{program.StageStartup, []string{"dropout", "save"}, nil},
		{program.StageStartup, []string{"feed"}, []string{"class Feed"}},
		{program.StageTrainer, []string{"relu", "send", "relu_grad", "send", "send_barrier", "recv", "recv", "fetch_barrier", "relu"}, nil},
		{program.StageTrainer, []string{"relu", "send", "recv"}, nil}, // async
		{program.StageTrainer, []string{"relu", "sgd"}, []string{"class Optimize; trainer program"}},
		{program.StageTrainer, []string{"save"}, []string{"class FileIO"}},
		{program.StageTrainer, []string{"send", "send_barrier", "send", "recv"}, []string{"op 2; after send_barrier"}},
		{program.StageTrainer, []string{"recv", "send", "send_barrier"}, []string{"op 2; op send_barrier; after recv"}},
		{program.StageTrainer, []string{"send", "fetch_barrier", "recv"}, []string{"op 2; op recv; after fetch_barrier"}},
		{program.StageTrainer, []string{"recv"}, []string{"recv; no send; this op waits for it"}},
		{program.StageTrainer, []string{"send", "send_barrier", "send_barrier"}, []string{"op 2; second"}},
		{program.StageTrainer, []string{"listen_and_serv"}, []string{"listen_and_serv; class Serve"}},
		{program.StageTrainerStartup, []string{"dropout", "recv", "fetch_barrier"}, nil},
		{program.StageTrainerStartup, []string{"send", "recv"}, []string{"send, of class Dist; not send"}},
		{program.StagePServer, []string{}, []string{"no listen_and_serv"}},
		{program.StagePServer, []string{"listen_and_serv"}, []string{"optimize_blocks"}},
		{program.StagePServer, []string{"relu", "listen_and_serv"}, []string{"op 0; class Compute; want Serve", "optimize_blocks"}},
		{program.StagePServerStartup, []string{"dropout"}, nil},
		{program.StagePServerStartup, []string{"recv"}, []string{"class Dist; pserver startup"}},
	}
	for _, test := range tests {
		sequence(t, test.ops...).requireFaults(test.stage, test.want...)
	}
}

func TestAPServerProgramRunsItsOptimizeBlocks(t *testing.T) {
	testOps(t)
	d := newDraft(t, "persistable w", "g")
	optimize := d.p.NewBlock(d.p.Global())
	d.op(optimize, "exchange", "g", "g")
	d.op(optimize, "sgd", "g", "w")
	serve := d.op(d.p.Global(), "listen_and_serv", "", "")
	serve.SetAttr("optimize_blocks", []program.BlockIndex{1})
	d.requireFaults(program.StagePServer)
	d.op(optimize, "send", "w", "")
	serve.SetAttr("optimize_blocks", []program.BlockIndex{1, 2})
	d.requireFaults(program.StagePServer, "block 0, op 0; block 2; want block 1, the only one that an op can run", "block 1, op 2; but not send")
}

func TestStagesDifferInWhatMayComeFromOutside(t *testing.T) {
	testOps(t)
	for stage, want := range map[program.Stage][]string{
		program.StageLocal:     nil,
		program.StageTrainer:   nil,
		program.StageInference: {`"x"; no op writes`},
		program.StageStartup:   {`"x"; no op writes`},
	} {
		d := newDraft(t, "x", "y")
		d.op(d.p.Global(), "relu", "x", "y")
		d.requireFaults(stage, want...)
	}
}
