package hostile_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
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
		m.Piece = s.piece(map[string]proto.Message{"ReportDataset": &rpc.ReportDatasetRequest{}, "ReportStep": &rpc.TrainerStep{},
			"Feed": &rpc.StepRun{}, "RunStep": &rpc.StepRun{}}[s.method])
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
