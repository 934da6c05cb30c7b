package remote_test

import (
	"fmt"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/reference"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/tensor"
)

// Trainers receive nothing of a model whose only parameter is a distributed table. Its steps end all the same: the next one begins with the rows that this one has
// updated, and the ledger has its records.
func TestTableAlone(t *testing.T) {
	m := layers.NewModel()
	r := layers.OpenDataset(m, testkit.Dataset, layers.Field("id", layers.Dims(1), layers.DType(tensor.Int64)))
	v := layers.Read(layers.DoubleBuffer(layers.Batch(r, 8)))
	row := layers.Embedding(v[0], 64, 4, layers.Sparse(), layers.Distributed())
	loss := layers.Mean(layers.Square(row), layers.Name("loss"))
	optimizer.Adagrad(0.1).Minimize(loss)
	model := testkit.Built(t, m, loss)
	const records, passes = 100, 3
	data := testkit.Records(t, t.TempDir(), records, func(i int) []*tensor.Tensor {
		id, err := tensor.FromSlice([]int64{int64(i*i) % 64})
		if err != nil {
			t.Fatal(err)
		}
		return []*tensor.Tensor{id}
	})
	l := listener(t)
	train := func(e executor.Executor, p *program.Program, save string) {
		t.Helper()
		if _, err := e.Train(bounded(t), p, executor.TrainOptions{Data: data, Passes: passes, Save: save}, nil); err != nil {
			t.Fatal(err)
		}
	}
	oracle, err := reference.New(model.Program, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer oracle.Close()
	train(oracle, model.Program, "")
	declared := asSelectedRows(t, model.Program, row)
	want := testkit.Persistables(oracle.Scope(), model.Program)
	for _, mode := range []job.Mode{job.Mode_SYNC, job.Mode_ASYNC} {
		for servers := int32(1); servers <= 2; servers++ {
			for _, transport := range []job.Transport{job.Transport_GRPC, job.Transport_TCP, job.Transport_SHM} {
				t.Run(fmt.Sprint(mode, servers, transport), func(t *testing.T) {
					save := t.TempDir()
					p := model.Program
					if transport == job.Transport_TCP {
						p = declared
					}
					train(executorOf(t, l, &remote.JobSpec{Trainers: 2, Pservers: servers, MinBlockSize: 4, Mode: mode, Transport: transport, RecordsPerTask: 10}), p, save)
					if err := testkit.Difference(testkit.Saved(t, save, model.Program), want); mode == job.Mode_SYNC && err != nil {
						t.Error(err)
					}
					ledger := lastLedger(t, l)
					if len(ledger.GetPasses()) != passes {
						t.Errorf("the ledger is %v", ledger)
					}
					for _, p := range ledger.GetPasses() {
						if p.Records != records || p.Again != 0 {
							t.Errorf("the ledger of pass %d: %d records, %d again", p.Pass, p.Records, p.Again)
						}
					}
				})
			}
		}
	}
}

// asSelectedRows is a program in whose file the table of a lookup is declared as Fluid declares tables of pservers.
func asSelectedRows(t *testing.T, p *program.Program, row layers.Variable) *program.Program {
	p = p.Clone()
	var table string
	for _, op := range p.Global().Ops {
		if op.Type == "lookup_table" && op.Out("Out") == row.Name() {
			table = op.In("W")
		}
	}
	for _, whole := range []*program.Program{p, p.Startup} {
		v, ok := whole.Global().Var(table)
		if !ok {
			t.Fatalf("no table %q of %s", table, row.Name())
		}
		v.Kind = program.SelectedRows
	}
	file, err := p.Encode()
	if err != nil {
		t.Fatal(err)
	}
	read, err := program.Decode(file, program.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	return read
}
