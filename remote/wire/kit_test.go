package wire_test

import (
	"context"
	"io"
	"net"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"

	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// service is a parameter server made of functions; those that a test does not set are not called.
type service struct {
	rpc.UnimplementedParameterServerServer
	send    func(grpc.ClientStreamingServer[rpc.VariableChunk, rpc.SendResponse]) error
	get     func(*rpc.GetRequest, grpc.ServerStreamingServer[rpc.VariableChunk]) error
	barrier func(context.Context, *rpc.BarrierRequest) (*rpc.BarrierResponse, error)
}

func (s *service) SendVariable(stream grpc.ClientStreamingServer[rpc.VariableChunk, rpc.SendResponse]) error {
	return s.send(stream)
}

func (s *service) GetVariable(m *rpc.GetRequest, stream grpc.ServerStreamingServer[rpc.VariableChunk]) error {
	return s.get(m, stream)
}

func (s *service) SendBarrier(ctx context.Context, m *rpc.BarrierRequest) (*rpc.BarrierResponse, error) {
	return s.barrier(ctx, m)
}

// start serves s over loopback until the test ends, and returns a client and the address.
func start(t testing.TB, s rpc.ParameterServerServer) (rpc.ParameterServerClient, string) {
	l := listen(t)
	server := wire.NewServer(nil)
	rpc.RegisterParameterServerServer(server, s)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- wire.Serve(ctx, server, l, 0) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return dial(t, l.Addr().String()), l.Addr().String()
}

func listen(t testing.TB) net.Listener {
	l, err := wire.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func dial(t testing.TB, address string) rpc.ParameterServerClient {
	conn, err := wire.Dial(address, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return rpc.NewParameterServerClient(conn)
}

// pipe joins the two halves of a stream of chunks through the codec, message by message, without a transport.
type pipe struct {
	codec    encoding.CodecV2
	messages []mem.BufferSlice
}

func (p *pipe) SendMsg(m any) error {
	b, err := p.codec.Marshal(m)
	if err == nil {
		p.messages = append(p.messages, mem.BufferSlice{mem.SliceBuffer(b.Materialize())})
	}
	return err
}

// bytes is the size of the messages on their way.
func (p *pipe) bytes() (n int) {
	for _, m := range p.messages {
		n += m.Len()
	}
	return n
}

func makeTensor(t testing.TB, dtype tensor.DType, dims ...int64) *tensor.Tensor {
	x, err := tensor.New(dtype, dims...)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// countUp fills a tensor with bytes that differ from one another within any 251 of them.
func countUp(t testing.TB, x *tensor.Tensor) *tensor.Tensor {
	b, err := wire.Memory(x)
	if err != nil {
		t.Fatal(err)
	}
	for i := range b {
		b[i] = byte(i % 251)
	}
	return x
}

func (p *pipe) RecvMsg(m any) error {
	if len(p.messages) == 0 {
		return io.EOF
	}
	next := p.messages[0]
	p.messages = p.messages[1:]
	return p.codec.Unmarshal(next, m)
}

// answering returns the address of a server whose answers tell its number by the round.
func answering(t *testing.T, number uint64) string {
	_, address := start(t, &numbered{ask: func() uint64 { return number }})
	return address
}

// numbered is a server that answers with a number.
type numbered struct {
	rpc.UnimplementedParameterServerServer
	ask func() uint64
}

func (s *numbered) Status(context.Context, *rpc.StatusRequest) (*rpc.StatusResponse, error) {
	return &rpc.StatusResponse{Round: s.ask()}, nil
}

func ask(ctx context.Context, client rpc.ParameterServerClient) (uint64, error) {
	r, err := client.Status(ctx, &rpc.StatusRequest{})
	return r.GetRound(), err
}

// askAgain retries what the end of an earlier address has cut.
func askAgain(t *testing.T, client rpc.ParameterServerClient) (n uint64, err error) {
	ctx := bounded(t)
	err = wire.Retry(ctx, func(id.Retry) (err error) {
		n, err = ask(ctx, client)
		return err
	})
	return n, err
}
