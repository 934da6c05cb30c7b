package hostile_test

import (
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/coordinator"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/internal/pstest"
	"github.com/edl-go/edl/remote/launch"
	"github.com/edl-go/edl/remote/listen"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

const (
	callers  = 6
	calls    = 60                    // of each caller
	patience = 20 * time.Millisecond // with a handler that waits: then the caller goes away
)

// lie calls the methods of a service, which srv implements, from several goroutines.
func lie(t *testing.T, seed uint64, identity wire.Identity, service *grpc.ServiceDesc, srv any, names ...string) {
	names = append(names, "", identity.Job, "x\x00y", "../../etc/passwd")
	var group sync.WaitGroup
	for caller := range uint64(callers) {
		l := liar{rand.New(rand.NewPCG(seed, caller)), identity, names}
		group.Go(func() {
			for range calls {
				if n := l.IntN(len(service.Methods) + len(service.Streams)); n < len(service.Methods) {
					l.unary(t, service.Methods[n], srv)
				} else {
					l.stream(t, service.Streams[n-len(service.Methods)], srv)
				}
			}
		})
	}
	group.Wait()
}

// without returns a service without some of its methods.
func without(service grpc.ServiceDesc, methods ...string) *grpc.ServiceDesc {
	service.Methods = slices.DeleteFunc(slices.Clone(service.Methods), func(m grpc.MethodDesc) bool { return slices.Contains(methods, m.MethodName) })
	return &service
}

// guard fails the test when do panics.
func guard(t *testing.T, method string, said func() string, do func(ctx context.Context)) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			t.Errorf("%s panics when it is sent %s: %v\n%s", method, said(), p, debug.Stack())
		}
	}()
	do(ctx)
}

func (l liar) unary(t *testing.T, m grpc.MethodDesc, srv any) {
	said := "nothing"
	guard(t, m.MethodName, func() string { return said }, func(ctx context.Context) {
		_, _ = m.Handler(srv, ctx, func(request any) error {
			l.fill(request.(proto.Message).ProtoReflect(), 0)
			said = fmt.Sprint(request)
			return nil
		}, nil)
	})
}

func (l liar) stream(t *testing.T, m grpc.StreamDesc, srv any) {
	s := &stream{liar: l, method: m.StreamName, messages: l.IntN(4)}
	guard(t, m.StreamName, func() string { return fmt.Sprint(s.said) }, func(ctx context.Context) {
		s.ctx = ctx
		_ = m.Handler(srv, s)
	})
}

// A stream is the server's side of a call.
type stream struct {
	liar
	ctx      context.Context
	method   string
	messages int // that are still to be received
	said     []string
}

var _ grpc.ServerStream = (*stream)(nil)

func (s *stream) SetHeader(metadata.MD) error  { return nil }
func (s *stream) SendHeader(metadata.MD) error { return nil }
func (s *stream) SetTrailer(metadata.MD)       {}
func (s *stream) Context() context.Context     { return s.ctx }

func (s *stream) SendMsg(any) error { return s.ctx.Err() }

// RecvMsg makes pieces that are whole messages, so that they are decoded.
func (s *stream) RecvMsg(m any) error {
	if s.messages == 0 {
		return io.EOF
	}
	s.messages--
	switch m := m.(type) {
	case *wire.Incoming:
		header := &rpc.VariableChunk{}
		s.make(header)
		if s.IntN(2) == 0 { // as announced
			header.Dtype, header.Dims, header.Bytes, header.Offset = int32(tensor.Float32), []int64{2}, 8, 0
			s.messages = 0
		}
		_, m.Refused = m.Place(header, int(pick(s.liar, []int64{0, 4, 8, 8, 8, 1 << 30})))
	case *rpc.SubmitRequest:
		m.Piece = s.piece(&job.JobSpec{})
	case *rpc.StartRoleChunk:
		m.Piece = s.piece(&job.RoleSpec{})
	case *rpc.Piece:
		s.make(m)
		m.Piece = s.piece(map[string]proto.Message{"ReportDataset": &rpc.ReportDatasetRequest{}, "ReportSteps": &rpc.TrainerSteps{}, "Evaluate": &rpc.EvaluateRequest{},
			"Feed": &rpc.StepRun{}, "RunStep": &rpc.StepRun{}, "WriteState": &rpc.StateValues{}, "Move": &rpc.MoveRequest{}, "Prepare": &rpc.PrepareRequest{}}[s.method])
	case proto.Message:
		s.make(m)
	default:
		panic(fmt.Sprintf("the test does not know what %s receives: %T", s.method, m))
	}
	return nil
}

func (s *stream) make(m proto.Message) {
	s.fill(m.ProtoReflect(), 0)
	s.said = append(s.said, fmt.Sprint(m))
}

func (s *stream) piece(m proto.Message) []byte {
	s.make(m)
	b, err := proto.Marshal(m)
	if err != nil {
		return []byte{0xff}
	}
	return b
}

// maxDepth bounds messages in messages.
const maxDepth = 5

// A liar makes messages. Names of the job are right often enough to come past the first checks.
type liar struct {
	*rand.Rand
	identity wire.Identity
	names    []string
}

var (
	numbers = []int64{0, 0, 0, 0, 0, 1, 1, 1, 2, 2, 3, 7, 40, -1, math.MaxInt32, math.MinInt32, math.MaxInt64, math.MinInt64, math.MaxInt64 - 1}
	floats  = []float64{0, 1, -1, math.NaN(), math.Inf(1), math.MaxFloat64}
)

func pick[T any](l liar, list []T) T { return list[l.IntN(len(list))] }

// fill sets some fields of m.
func (l liar) fill(m protoreflect.Message, depth int) {
	if who, ok := m.Interface().(*rpc.Identity); ok && l.IntN(8) > 0 {
		rank, round := id.Rank(pick(l, numbers)), id.Round(pick(l, numbers))
		proto.Merge(who, l.identity.Of(rank, round, 0))
		if l.IntN(30) == 0 { // rarely: who is heard of with the highest fence is obeyed ever after
			who.Generation, who.Fence = uint64(pick(l, numbers)), uint64(pick(l, numbers))
		}
		return
	}
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		switch {
		case f.IsMap() || l.IntN(5) == 0 || f.Message() != nil && depth == maxDepth:
		case f.IsList():
			list := m.Mutable(f).List()
			for range l.IntN(4) {
				list.Append(l.value(f, list.NewElement(), depth))
			}
		default:
			m.Set(f, l.value(f, m.NewField(f), depth))
		}
	}
}

func (l liar) value(f protoreflect.FieldDescriptor, empty protoreflect.Value, depth int) protoreflect.Value {
	n := pick(l, numbers)
	switch f.Kind() {
	case protoreflect.MessageKind:
		l.fill(empty.Message(), depth+1)
		return empty
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(l.IntN(2) == 0)
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(n))
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return protoreflect.ValueOfInt32(int32(n))
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(uint32(n))
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return protoreflect.ValueOfInt64(n)
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64(uint64(n))
	case protoreflect.FloatKind:
		return protoreflect.ValueOfFloat32(float32(pick(l, floats)))
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(pick(l, floats))
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(pick(l, l.names))
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes(pick(l, [][]byte{nil, l.identity.Program, {0xff, 0xff, 0xff, 0xff}, make([]byte, 100)}))
	}
	return empty
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rounds is how many servers of each kind are lied to.
const rounds = 6

func mode(sync bool) string {
	if sync {
		return "sync"
	}
	return "async"
}

func TestParameterServer(t *testing.T) {
	for _, sync := range []bool{true, false} {
		t.Run(mode(sync), func(t *testing.T) {
			for seed := range uint64(rounds) {
				s := pstest.Start(t, pstest.Config(3), pstest.SGD(0, sync, 0.1, 2))
				if seed%2 == 0 { // nobody ends the generation, so that lies about contributions are believed for longer
					lie(t, seed, pstest.Identity, without(rpc.ParameterServer_ServiceDesc, "Freeze", "Resume", "Complete"), s.Server, "w0", "w0@GRAD", "w0@GRAD")
				}
				lie(t, seed, pstest.Identity, &rpc.ParameterServer_ServiceDesc, s.Server, "w0", "w0@GRAD")
				s.Stop()
			}
		})
	}
}

func TestCoordinator(t *testing.T) {
	for name, c := range map[string]coordinator.Config{
		"sync": {Sync: true, Trainers: 1, TrainersMax: 3}, "async": {Trainers: 1, TrainersMax: 3},
		"fed": {Sync: true, Trainers: 1, Fed: true},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(rounds) {
				lieToCoordinator(t, seed, c)
			}
		})
	}
}

func lieToCoordinator(t *testing.T, seed uint64, c coordinator.Config) {
	registry, err := cluster.NewMemory().Open(cluster.Prefix(pstest.Identity.Job))
	if err != nil {
		t.Fatal(err)
	}
	defer registry.Close()
	member, err := registry.LeadCoordinator(t.Context(), "here")
	if err != nil {
		t.Fatal(err)
	}
	server := pstest.New(t, pstest.Config(3))
	server.Serve(pstest.SGD(0, c.Sync, 0.1, 2))
	c.Identity, c.Passes, c.MaxFailures, c.TaskTimeout = pstest.Identity, 2, 2, [2]time.Duration{time.Hour, time.Hour}
	c.StartDeadline, c.RejoinDeadline, c.Live = time.Hour, time.Hour, registry.Live
	c.Program = testkit.Fed(t, optimizer.SGD(0.1)).Program
	c.Servers = []rpc.ParameterServerClient{server.Client}
	c.Merge = func(reports []*rpc.TrainerStep) ([]*job.Value, error) { return reports[0].Fetched, nil }
	s := coordinator.New(c)
	ended := make(chan error, 1)
	go func() {
		ended <- s.Run(context.Background(), coordinator.Lead{Fence: member.Fence(), State: registry.State(member)})
	}()
	identity := begin(t, s, registry)
	if seed%2 == 0 { // as above
		lie(t, seed, identity, without(rpc.Coordinator_ServiceDesc, "Join", "Leave", "RequestSaveModel", "Finish"), s, testkit.Dataset, testkit.Dataset,
			"x", "y")
	}
	lie(t, seed, identity, &rpc.Coordinator_ServiceDesc, s, testkit.Dataset, "x", "y", "loss")
	s.Fail(fault.New(fault.Canceled, "the test ends"))
	<-ended
	server.Stop()
}

// begin lets an honest trainer begin the job, and returns its identity.
func begin(t *testing.T, s *coordinator.Server, registry cluster.Registry) wire.Identity {
	member, err := registry.JoinTrainer(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	honest := pstest.Identity
	honest.Generation, honest.Fence = 0, 0
	joined, err := s.Join(t.Context(), &rpc.JoinRequest{Id: honest.Of(0, 0, 0), Incarnation: uint64(member.Incarnation())})
	if err != nil {
		t.Fatal(err)
	}
	honest.Generation, honest.Fence = id.Generation(joined.Generation), id.Fence(joined.Fence)
	data := &rpc.Dataset{Name: testkit.Dataset, Files: []*rpc.DataFile{{Path: "train-0", Records: 100, Bytes: 1000}}}
	if err := s.TakeDataset(t.Context(), &rpc.ReportDatasetRequest{Id: honest.Of(0, 0, 0), Dataset: data}); err != nil {
		t.Fatal(err)
	}
	return honest
}

func TestListener(t *testing.T) {
	store := cluster.NewMemory()
	began := make(chan struct{}, 1)
	launcher := launch.Goroutines(func(ctx context.Context, _ *job.RoleSpec, _ io.Writer) error {
		select {
		case began <- struct{}{}:
		default:
		}
		<-ctx.Done()
		return ctx.Err()
	})
	open := func(_ context.Context, spec *job.RoleSpec) (cluster.Registry, error) { return store.Open(spec.Prefix) }
	b, err := testkit.Reading(t, 5, optimizer.SGD(0.1)).Program.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(rounds) {
		states := t.TempDir()
		m := listen.NewManager(listen.Config{Launcher: launcher, Registry: open, StateDir: states, MaxStates: 5})
		spec := &job.JobSpec{Name: pstest.Identity.Job, Program: b, TrainersMax: 3,
			Data: []*job.DataBinding{{Dataset: testkit.Dataset, Globs: []string{"nowhere"}}}}
		j, err := m.Start(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		<-began
		lie(t, seed, pstest.Identity, &rpc.Listener_ServiceDesc, &listen.Server{Manager: m, Local: launcher}, j.ID)
		if err := m.Close(); err != nil {
			t.Error(err)
		}
		if left, err := os.ReadDir(states); err != nil || len(left) > 0 {
			t.Errorf("states are left behind: %v, %v", left, err)
		}
	}
}
