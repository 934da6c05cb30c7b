package wire_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/wire"
)

// call makes one call of each form and returns how each failed.
func call(t *testing.T, client rpc.ParameterServerClient) map[string]error {
	_, unary := client.SendBarrier(t.Context(), &rpc.BarrierRequest{})
	send, err := client.SendVariable(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, upload := send.CloseAndRecv()
	get, err := client.GetVariable(t.Context(), &rpc.GetRequest{})
	if err != nil {
		t.Fatal(err)
	}
	_, download := get.Recv()
	return map[string]error{"unary": unary, "upload": wire.FromStatus("pserver 1", upload), "download": wire.FromStatus("pserver 1", download)}
}

// failing is a service whose every method fails with what f returns or panics with.
func failing(f func() error) *service {
	return &service{
		send:    func(grpc.ClientStreamingServer[rpc.VariableChunk, rpc.SendResponse]) error { return f() },
		get:     func(*rpc.GetRequest, grpc.ServerStreamingServer[rpc.VariableChunk]) error { return f() },
		barrier: func(context.Context, *rpc.BarrierRequest) (*rpc.BarrierResponse, error) { return nil, f() },
	}
}

// Every kind of fault arrives whole, whatever the form of the call.
func TestFaultsSurviveTheWire(t *testing.T) {
	var sent error
	client, _ := start(t, failing(func() error { return sent }))
	for kind := fault.Internal; kind <= fault.Drained; kind++ {
		want := fault.Fault{Kind: kind, Op: "sgd", Variable: "w", Where: "block 2", Got: "a", Want: "b", Line: "train.go:7", Hint: "c",
			Err: errors.New("cause")}
		sent = &want
		for form, err := range call(t, client) {
			var got *fault.Fault
			if !errors.As(err, &got) {
				t.Fatalf("%s: %v", form, err)
			}
			if wire.Broken(err) {
				t.Errorf("%s of %v: the connection is said to be broken", form, kind)
			}
			if got.Err == nil || got.Err.Error() != "cause" {
				t.Errorf("%s of %v: cause %v", form, kind, got.Err)
			}
			cause := *got
			cause.Err = want.Err
			if cause != want {
				t.Errorf("%s of %v: got %+v, want %+v", form, kind, cause, want)
			}
		}
	}
}

// An error that is not a single fault keeps its kind and its text.
func TestOtherErrorsOnTheWire(t *testing.T) {
	var sent error
	client, address := start(t, failing(func() error { return sent }))
	for _, c := range []struct {
		err  error
		kind fault.Kind
		text string
	}{
		{errors.New("plain"), fault.Internal, "plain"},
		{context.DeadlineExceeded, fault.DeadlineExceeded, "deadline"},
		{context.Canceled, fault.Canceled, "canceled"},
		{errors.Join(fault.New(fault.Stale, "first"), errors.New("second")), fault.Stale, "second"},
		{fmt.Errorf("while closing: %w", fault.New(fault.Corrupt, "x")), fault.Corrupt, "while closing"},
		{fault.List{fault.New(fault.NotFound, "one"), fault.New(fault.Stale, "two")}, fault.NotFound, "two"},
		{fault.E(fault.LostMember, fault.Cause(status.Error(codes.Unavailable, "peer gone"))), fault.LostMember, "peer gone"},
		{status.Error(codes.ResourceExhausted, "too long"), fault.TooLarge, "too long"},
		{fault.E(fault.NotFound, fault.At("dir/\xff\xfe.pb")), fault.NotFound, "dir/?.pb"},
		{fault.New(fault.OK, "not a failure"), fault.Internal, "not a failure"},
		{fault.New(99, "a kind of the future"), fault.Internal, "a kind of the future"},
	} {
		sent = c.err
		for form, err := range call(t, client) {
			if fault.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.text) {
				t.Errorf("%s of %q: got %v %q", form, c.err, fault.KindOf(err), err)
			}
			peer := "pserver 1"
			if form == "unary" {
				peer = address
			}
			if !strings.Contains(err.Error(), peer) && !strings.Contains(err.Error(), "dir/") {
				t.Errorf("%s of %q: %q does not name the peer", form, c.err, err)
			}
		}
	}
}

func TestPanicIsAFault(t *testing.T) {
	client, _ := start(t, failing(func() error { var list []int; _ = list[len(list)]; return nil }))
	for form, err := range call(t, client) {
		if fault.KindOf(err) != fault.Internal || !strings.Contains(err.Error(), "index out of range") ||
			!strings.Contains(err.Error(), "errors_test.go:") {
			t.Errorf("%s: %v", form, err)
		}
	}
	for form, err := range call(t, client) {
		if err == nil {
			t.Errorf("%s after a panic: no answer", form)
		}
	}
}

func TestNoFailureIsNoError(t *testing.T) {
	if wire.ToStatus(nil) != nil || wire.FromStatus("x", nil) != nil || wire.FailureOf(nil) != nil || wire.FaultOf(nil) != nil {
		t.Error("nil became an error")
	}
	if got := wire.FaultOf(&job.Failure{Kind: -4, Message: "m"}); !errors.Is(got, fault.Internal) {
		t.Error(got)
	}
}
