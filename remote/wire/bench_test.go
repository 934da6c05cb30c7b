package wire_test

import (
	"context"
	"fmt"
	"io"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

// BenchmarkTransfer moves one tensor from client to server over loopback, with this package and with gRPC's own codec.
func BenchmarkTransfer(b *testing.B) {
	for _, megabytes := range []int64{1, 16, 64} {
		b.Run(fmt.Sprintf("%dMB/wire", megabytes), func(b *testing.B) { benchmarkWire(b, megabytes<<20) })
		b.Run(fmt.Sprintf("%dMB/grpc", megabytes), func(b *testing.B) { benchmarkPlain(b, megabytes<<20) })
	}
}

func benchmarkWire(b *testing.B, size int64) {
	sent, into := makeTensor(b, tensor.Float32, size/4), makeTensor(b, tensor.Float32, size/4)
	client, _ := start(b, &service{send: func(s grpc.ClientStreamingServer[rpc.VariableChunk, rpc.SendResponse]) error {
		if _, err := wire.ReceiveVariable(s, func(*rpc.VariableChunk) (*tensor.Tensor, error) { return into, nil }); err != nil {
			return err
		}
		return s.SendAndClose(&rpc.SendResponse{})
	}})
	upload(b, client, size, func(s rpc.ParameterServer_SendVariableClient) error {
		return wire.SendVariable(s, &rpc.VariableChunk{Name: "w"}, sent, wire.Keep)
	})
}

// benchmarkPlain is what a program would do without this package: chunks as protobuf messages, copied into place.
func benchmarkPlain(b *testing.B, size int64) {
	sent, into := make([]byte, size), make([]byte, size)
	server := grpc.NewServer()
	rpc.RegisterParameterServerServer(server, &service{send: func(s grpc.ClientStreamingServer[rpc.VariableChunk, rpc.SendResponse]) error {
		for {
			m, err := s.Recv()
			if err == io.EOF {
				return s.SendAndClose(&rpc.SendResponse{})
			}
			if err != nil {
				return err
			}
			copy(into[m.Offset:], m.Data)
		}
	}})
	l := listen(b)
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { conn.Close(); server.Stop(); <-served })
	upload(b, rpc.NewParameterServerClient(conn), size, func(s rpc.ParameterServer_SendVariableClient) error {
		for at := int64(0); at < size; at += wire.ChunkBytes {
			if err := s.Send(&rpc.VariableChunk{Name: "w", Offset: at, Data: sent[at:min(at+wire.ChunkBytes, size)]}); err != nil {
				return err
			}
		}
		return nil
	})
}

func upload(b *testing.B, client rpc.ParameterServerClient, size int64, send func(rpc.ParameterServer_SendVariableClient) error) {
	b.SetBytes(size)
	b.ReportAllocs()
	for b.Loop() {
		stream, err := client.SendVariable(context.Background())
		if err != nil {
			b.Fatal(err)
		}
		if err := send(stream); err != nil {
			b.Fatal(err)
		}
		if _, err := stream.CloseAndRecv(); err != nil {
			b.Fatal(err)
		}
	}
}
