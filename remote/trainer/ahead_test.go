package trainer

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/internal/pstest"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
	"github.com/edl-go/edl/transpiler"
)

// rowServer answers GetRows: each element of row r of version v is 1000 v + r. It notes the requests.
type rowServer struct {
	rpc.UnimplementedParameterServerServer
	width map[string]int

	mu    sync.Mutex
	asked []string
	fails error // the next request
}

func (s *rowServer) GetRows(m *rpc.RowsRequest, stream grpc.ServerStreamingServer[rpc.VariableChunk]) error {
	s.mu.Lock()
	fails := s.fails
	s.asked, s.fails = append(s.asked, fmt.Sprintf("%v %v in round %d: %v", m.Tables, m.Counts, m.Id.Round, m.Rows)), nil
	s.mu.Unlock()
	if fails != nil {
		return wire.ToStatus(fails)
	}
	var words []int32
	rows := m.Rows
	for i, name := range m.Tables {
		n := int(m.Counts[i]) * s.width[name]
		words = append(words, make([]int32, wire.RowsWords(tensor.Float32, n))...)
		elements, _, err := wire.BeginRows(words[len(words)-wire.RowsWords(tensor.Float32, n):], tensor.Float32, n)
		if err != nil {
			return err
		}
		for j := range elements.Float32s() {
			elements.Float32s()[j] = float32(1000*m.Id.Round) + float32(rows[j/s.width[name]])
		}
		rows = rows[m.Counts[i]:]
	}
	out, err := tensor.FromSlice(words)
	if err != nil {
		return err
	}
	return wire.SendVariable(stream, &rpc.VariableChunk{}, out, wire.Keep)
}

// take returns the requests since the last call, sorted.
func (s *rowServer) take() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := s.asked
	s.asked = nil
	slices.Sort(asked)
	return asked
}

// aheadRig is a trainer that trains two tables with one server.
type aheadRig struct {
	t      *testing.T
	server *rowServer
	comm   *Comm
	batch  *dataset.Batch
	wanted []ops.RowsMessage // by the batch
}

func newAheadRig(t *testing.T) *aheadRig {
	m := layers.NewModel()
	r := layers.OpenDataset(m, testkit.Dataset, layers.Field("a", layers.Dims(1), layers.DType(tensor.Int64)), layers.Field("b", layers.Dims(1), layers.DType(tensor.Int64)))
	v := layers.Read(layers.DoubleBuffer(layers.Batch(r, 4)))
	table := func(ids layers.Variable, name string, width int64) layers.Variable {
		return layers.ReduceSum(layers.Embedding(ids, 20, width, layers.Sparse(), layers.Distributed(), layers.Param(layers.ParamAttr{Name: name})))
	}
	loss := layers.Add(table(v[0], "narrow", 1), table(v[1], "wide", 3), layers.Name("loss"))
	optimizer.SGD(0.1).Minimize(loss)
	model := testkit.Built(t, m, loss)
	roles, err := transpiler.Transpile(t.Context(), model.Program, transpiler.Config{Trainers: 1, PServers: 1})
	if err != nil {
		t.Fatal(err)
	}
	x := &aheadRig{t: t, server: &rowServer{width: map[string]int{}}}
	for _, s := range roles.Placement.Slices {
		v, _ := roles.PServers[0].Global().Var(s.Name)
		x.server.width[s.Name] = int(v.Dims[1])
	}
	ids := func(values ...int64) *tensor.Tensor {
		v, err := tensor.New(tensor.Int64, int64(len(values)), 1)
		if err != nil {
			t.Fatal(err)
		}
		copy(v.Int64s(), values)
		return v
	}
	x.batch = &dataset.Batch{Tensors: []*tensor.Tensor{ids(3, 3, 19, 0), ids(7, 7, 7, 7)}, Rows: 4, GlobalRows: 4}
	service := wire.NewServer(nil)
	rpc.RegisterParameterServerServer(service, x.server)
	x.comm = &Comm{Sync: true, Deadline: longDeadlines.TrainerRound, Servers: []rpc.ParameterServerClient{rpc.NewParameterServerClient(pstest.Serve(t, service))},
		caller: caller{unavailable: longDeadlines.Unavailable}}
	x.comm.BeginGeneration(wire.Identity{Job: pstest.Identity.Job, Generation: 1}, 0)
	options := []executor.Option{executor.WithStage(program.StageTrainer)}
	if x.comm.ahead = newAhead(roles.Trainer, options); x.comm.ahead == nil {
		t.Fatal("nothing is asked ahead")
	}
	t.Cleanup(func() {
		x.comm.Abort()
		if err := x.comm.ahead.close(); err != nil {
			t.Error(err)
		}
	})
	x.comm.ahead.note(t.Context(), 0, x.batch) // what a step asks for, too
	for _, m := range x.comm.ahead.noted[0].messages {
		m.Rows = slices.Clone(m.Rows)
		x.wanted = append(x.wanted, m)
	}
	return x
}

// fetch begins a step and fetches what its prefetch op wants. It returns the requests that were made meanwhile.
func (x *aheadRig) fetch(round uint64, wanted []ops.RowsMessage) []string {
	x.t.Helper()
	x.comm.BeginStep(ops.Step{Round: round, Rows: 4}, 0, nil)
	for i := range wanted {
		wanted[i].Into = make([]float32, len(wanted[i].Into))
	}
	if err := x.comm.FetchRows(x.t.Context(), wanted); err != nil {
		x.t.Fatal(err)
	}
	for _, m := range wanted {
		width := len(m.Into) / len(m.Rows)
		for i, got := range m.Into {
			if want := float32(1000*round) + float32(m.Rows[i/width]); got != want {
				x.t.Fatalf("row %d of %s is %v in round %d, want %v", m.Rows[i/width], m.Name, got, round, want)
			}
		}
	}
	asked := x.server.take()
	x.comm.ahead.settle()
	return asked
}

// The rows of all tables are asked for at once, with the round that wants them, and FetchRows asks for nothing more. Where it wants others, or a request has failed, or no
// batch was read ahead, it asks itself: the rows are always those of its round.
func TestRowsAskedAhead(t *testing.T) {
	x := newAheadRig(t)
	ask := func(round id.Round, batch *dataset.Batch) {
		x.comm.ahead.note(t.Context(), round, batch)
		x.comm.ahead.ask(context.Background(), x.comm, round)
	}
	rows := slices.Concat(x.wanted[0].Rows, x.wanted[1].Rows)
	whole := func(round int) string {
		return fmt.Sprintf("[narrow.block0 wide.block0] [3 1] in round %d: %v", round, rows)
	}
	if asked := x.fetch(0, x.wanted); !slices.Equal(asked, []string{whole(0)}) {
		t.Fatalf("a step without a batch ahead asks for %q", asked)
	}
	for round := uint64(1); round < 4; round++ {
		ask(id.Round(round), x.batch)
		if asked := x.fetch(round, x.wanted); !slices.Equal(asked, []string{whole(int(round))}) {
			t.Errorf("round %d is asked for by %q", round, asked)
		}
	}
	x.server.fails = fault.E(fault.Foreign, fault.Got("a request that fails"))
	ask(4, x.batch)
	if asked := x.fetch(4, x.wanted); !slices.Equal(asked, []string{whole(4), whole(4)}) {
		t.Errorf("after a failure %q were asked for", asked)
	}
	other := slices.Clone(x.wanted)
	other[1].Rows = []int32{8}
	ask(5, x.batch)
	if asked := x.fetch(5, other); !slices.Equal(asked, []string{whole(5), "[wide.block0] [1] in round 5: [8]"}) {
		t.Errorf("for a step with other ids %q were asked for", asked)
	}
	x.comm.ahead.note(t.Context(), 6, x.batch)
	ask(7, x.batch)
	if asked := x.fetch(8, x.wanted); !slices.Equal(asked, []string{whole(7), whole(8)}) { // a round later than those that were asked for
		t.Errorf("for a step of another round %q were asked for", asked)
	}
	slices.Reverse(x.wanted)
	ask(9, x.batch)
	if asked := x.fetch(9, x.wanted); !slices.Equal(asked, []string{whole(9)}) {
		t.Errorf("for a step that takes tables in another order %q were asked for", asked)
	}
	ask(10, &dataset.Batch{Tensors: x.batch.Tensors})
	ask(11, &dataset.Batch{Tensors: x.batch.Tensors[:1], Rows: 4})
	if asked := x.server.take(); asked != nil || len(x.comm.ahead.noted) > 0 {
		t.Errorf("batches without rows, or of other variables, ask for %q; %d are kept", asked, len(x.comm.ahead.noted))
	}
}

// Only ids that depend on nothing but what is read are known ahead.
func TestNothingToAskAhead(t *testing.T) {
	for what, ids := range map[string]func(v layers.Variable) layers.Variable{
		"a parameter": func(v layers.Variable) layers.Variable {
			return layers.Cast(layers.FC(layers.Cast(v, tensor.Float32), 1), tensor.Int64)
		},
		"chance": func(v layers.Variable) layers.Variable {
			return layers.Cast(layers.Dropout(layers.Cast(v, tensor.Float32), 0.5), tensor.Int64)
		},
	} {
		m := layers.NewModel()
		r := layers.OpenDataset(m, testkit.Dataset, layers.Field("a", layers.Dims(1), layers.DType(tensor.Int64)))
		v := layers.Read(layers.DoubleBuffer(layers.Batch(r, 4)))
		loss := layers.Mean(layers.Embedding(ids(v[0]), 20, 2, layers.Sparse(), layers.Distributed()))
		optimizer.SGD(0.1).Minimize(loss)
		model := testkit.Built(t, m, loss)
		roles, err := transpiler.Transpile(t.Context(), model.Program, transpiler.Config{Trainers: 1, PServers: 1})
		if err != nil {
			t.Fatal(err)
		}
		if a := newAhead(roles.Trainer, nil); a != nil {
			t.Errorf("ids that depend on %s are asked for ahead", what)
		}
	}
}

// The law of tables: the same as that of generations, where servers alone have tables of all kinds, whose rows are asked for ahead, all by one call.
func TestLawOfTables(t *testing.T) {
	for _, l := range []lawCase{{servers: 2, over: "tcp"}, {servers: 1, over: "shm"}, {servers: 2, over: "grpc"}} {
		t.Run(fmt.Sprintf("%s, %d servers", l.over, l.servers), func(t *testing.T) {
			m := layers.NewModel().Seed(3)
			r := layers.OpenDataset(m, testkit.Dataset, layers.Field("x", layers.Dims(testkit.Width)), layers.Field("y", layers.Dims(1)))
			v := layers.Read(layers.DoubleBuffer(layers.Batch(layers.Shuffle(r, 12, 11), 5)))
			ids := layers.Cast(layers.Scale(layers.Abs(layers.Slice(v[0], []int{1}, []int64{0}, []int64{1})), 5, 0), tensor.Int64)
			rows := layers.Concat([]layers.Variable{
				layers.Embedding(ids, 64, 4, layers.Sparse(), layers.Distributed(), layers.Param(layers.ParamAttr{Name: "rows"})),
				layers.Embedding(ids, 64, 3, layers.Sparse(), layers.Distributed(), layers.StoreBFloat16(), layers.Param(layers.ParamAttr{Name: "halves"})),
				layers.SparseEmbedding(ids, 512, 2, layers.EvictUnseen(3), layers.Param(layers.ParamAttr{Name: "keys"})),
				layers.SparseEmbedding(ids, 512, 1, layers.StoreBFloat16(), layers.Param(layers.ParamAttr{Name: "half.keys"})),
			}, 1)
			loss := layers.Mean(layers.SquareErrorCost(layers.FC(rows, 1), v[1]), layers.Name("loss"))
			optimizer.Adagrad(0.1).Minimize(loss)
			l.model, l.data, l.records, l.passes = testkit.Built(t, m, loss), testkit.Samples(t, t.TempDir(), 48), 48, 2
			l.ofGenerations(t)
		})
	}
}
