package remote_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/credential"
	"github.com/edl-go/edl/remote/credential/credentialtest"
	"github.com/edl-go/edl/remote/wire"
)

// callEmpty calls a method with an empty message and returns the error. A stream is read until it ends.
func callEmpty(ctx context.Context, conn *grpc.ClientConn, m protoreflect.MethodDescriptor) error {
	method := fmt.Sprintf("/%s/%s", m.Parent().FullName(), m.Name())
	in, out := dynamicpb.NewMessage(m.Input()), dynamicpb.NewMessage(m.Output())
	if !m.IsStreamingClient() && !m.IsStreamingServer() {
		return conn.Invoke(ctx, method, in, out, grpc.WaitForReady(false))
	}
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: m.IsStreamingClient(), ServerStreams: m.IsStreamingServer()}, method, grpc.WaitForReady(false))
	if err != nil {
		return err
	}
	if err := stream.SendMsg(in); err == nil {
		_ = stream.CloseSend()
	}
	return stream.RecvMsg(proto.Message(out))
}

// Every method of every server refuses whoever has no certificate, one of another authority, one that has expired, or that of another job; and so does it with
// users and roles where they have no business.
func TestEveryMethodAsksWhoCalls(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	l := r.listener()
	fed := testkit.Fed(t, optimizer.SGD(0.1))
	e := executorOf(t, l, &remote.JobSpec{Name: "asks", Trainers: 1, Pservers: 1})
	if _, err := e.Run(bounded(t), fed.Program, testkit.Batch(t, fed.Program, 1, 4), fed.Loss); err != nil {
		t.Fatal(err)
	}
	registry, err := cluster.Open(bounded(t), cluster.Config{Endpoints: r.etcd, Prefix: cluster.Prefix("asks")})
	if err != nil {
		t.Fatal(err)
	}
	defer registry.Close()
	server, err := registry.Server(bounded(t), 0)
	if err != nil {
		t.Fatal(err)
	}
	coordinator, err := registry.Coordinator(bounded(t))
	if err != nil {
		t.Fatal(err)
	}
	other, err := credential.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := other.Issue(credential.Name{Kind: credential.Listener}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	trainer := func(job string) credential.Name {
		return credential.Name{Kind: credential.Role, Job: job, Role: "trainer", Index: 1}
	}
	issue := func(name credential.Name, life time.Duration) *credential.Credentials {
		return credentialtest.Issue(t, name, life)
	}
	strangers := map[string]*credential.Credentials{
		"nobody":               nil,
		"of another authority": foreign,
		"expired":              issue(credential.Name{Kind: credential.Listener}, -time.Minute),
		"of another job":       issue(trainer("other"), time.Hour),
	}
	ofJob := func(c *credential.Credentials) *wire.Side { return wire.OfJob(c, "asks") }
	methods := 0
	for _, s := range []struct {
		address string
		service string
		side    func(*credential.Credentials) *wire.Side
		extra   map[string]*credential.Credentials
	}{
		{l.Address(), "Listener", wire.ToListener, map[string]*credential.Credentials{"a role of a job": issue(trainer("asks"), time.Hour)}},
		{server, "ParameterServer", ofJob, map[string]*credential.Credentials{"a user": issue(credential.Name{Kind: credential.User, User: "u"}, time.Hour)}},
		{coordinator, "Coordinator", ofJob, map[string]*credential.Credentials{"a user": issue(credential.Name{Kind: credential.User, User: "u"}, time.Hour)}},
	} {
		d := rpc.File_proto_rpc_rpc_proto.Services().ByName(protoreflect.Name(s.service))
		if d == nil {
			t.Fatalf("there is no service %s", s.service)
		}
		for _, group := range []map[string]*credential.Credentials{strangers, s.extra} {
			for who, c := range group {
				var side *wire.Side
				if c != nil {
					side = s.side(c)
				}
				conn, err := wire.Dial(s.address, side)
				if err != nil {
					t.Fatal(err)
				}
				for i := range d.Methods().Len() {
					methods++
					m := d.Methods().Get(i)
					err := callEmpty(bounded(t), conn, m)
					var known *fault.Fault
					if err == nil || errors.As(wire.FromStatus("peer", err), &known) && known.Kind != fault.Denied && known.Kind != fault.Unavailable {
						t.Errorf("%s.%s answers %s: %v", s.service, m.Name(), who, err)
					}
				}
				conn.Close()
			}
		}
	}
	if methods < 100 {
		t.Errorf("%d calls were tried", methods)
	}

	// A user may not start a role, and a trainer may not speak for another one.
	conn, err := wire.Dial(l.Address(), wire.ToListener(issue(credential.Name{Kind: credential.User, User: "u"}, time.Hour)))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := callEmpty(bounded(t), conn, rpc.File_proto_rpc_rpc_proto.Services().ByName("Listener").Methods().ByName("List")); err != nil {
		t.Errorf("a user asks for jobs: %v", err)
	}
	as1, err := wire.Dial(coordinator, ofJob(issue(trainer("asks"), time.Hour)))
	if err != nil {
		t.Fatal(err)
	}
	defer as1.Close()
	id := identityOf(t, fed.Program, "asks").Of(0, 1, 0)
	_, err = rpc.NewCoordinatorClient(as1).Leave(bounded(t), &rpc.LeaveRequest{Id: id})
	if err := wire.FromStatus("coordinator", err); !errors.Is(err, fault.Denied) || !strings.Contains(err.Error(), "trainer/1") {
		t.Errorf("trainer 1 says that trainer 0 leaves: %v", err)
	}
}
