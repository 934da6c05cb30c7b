package remote_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/credential"
	"github.com/edl-go/edl/remote/credential/credentialtest"
	"github.com/edl-go/edl/remote/credential/issuer"
	"github.com/edl-go/edl/remote/credential/issuer/issuertest"
	"github.com/edl-go/edl/remote/wire"
)

// callEmpty calls a method with an empty message and returns the error. A stream is read until it ends.
func callEmpty(ctx context.Context, conn *grpc.ClientConn, m protoreflect.MethodDescriptor) error {
	return callWith(ctx, conn, m, dynamicpb.NewMessage(m.Input()))
}

// callWith is callEmpty with a message.
func callWith(ctx context.Context, conn *grpc.ClientConn, m protoreflect.MethodDescriptor, in *dynamicpb.Message) error {
	method := fmt.Sprintf("/%s/%s", m.Parent().FullName(), m.Name())
	out := dynamicpb.NewMessage(m.Output())
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

func userName(name string, access credential.Access) credential.Name {
	return credential.Name{Kind: credential.User, User: name, Access: access}
}

// Every method of every server refuses whoever has no certificate, one of another authority, one that has expired, or that of another job; and so does it with
// users and roles where they have no business.
func TestEveryMethodAsksWhoCalls(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	from := issuertest.New(t)
	l := listener(t, remote.WithLauncher(r), remote.WithEtcd(r.etcd...), remote.WithTokens(credential.OpenTokens("")), remote.WithIssuer(issuerOf(t, from)))
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
		"of another job":       issue(trainer("other"), time.Hour),
	}
	ofJob := func(c *credential.Credentials) *wire.Side { return wire.OfJob(c, "asks") }
	old := map[string]*credential.Credentials{
		"an expired listener": issue(credential.Name{Kind: credential.Listener}, -time.Minute),
		"an expired role":     issue(trainer("asks"), -time.Minute),
		"an expired user":     issue(userName("u", credential.Admin), -time.Minute),
	}
	node := listener(t, remote.WithEtcd(r.etcd...), remote.WithNode("asked"), remote.WithTokens(credential.OpenTokens("")), remote.WithIssuer(issuerOf(t, from)))
	shown := from.Refused(t, "u", []string{"admin"}) // without a certificate
	maps.Copy(shown, map[string]string{"nobody, over TLS": "", "a token that is none": "x", "a JWT that is none": "a.b.c"})
	methods, tried := 0, map[protoreflect.Name]bool{}
	for _, s := range []struct {
		address string
		service string
		side    func(*credential.Credentials) *wire.Side
		extra   map[string]*credential.Credentials
	}{
		{l.Address(), "Listener", wire.ToListener, map[string]*credential.Credentials{"a role of a job": issue(trainer("asks"), time.Hour)}},
		{node.Address(), "Keeper", wire.ToListener, map[string]*credential.Credentials{"a role of a job": issue(trainer("asks"), time.Hour), "a user": issue(userName("u", credential.Admin), time.Hour)}},
		{server, "ParameterServer", ofJob, map[string]*credential.Credentials{"a user": issue(userName("u", credential.Admin), time.Hour)}},
		{coordinator, "Coordinator", ofJob, map[string]*credential.Credentials{"a user": issue(userName("u", credential.Admin), time.Hour)}},
	} {
		d := rpc.File_proto_rpc_rpc_proto.Services().ByName(protoreflect.Name(s.service))
		if d == nil {
			t.Fatalf("there is no service %s", s.service)
		}
		tried[d.Name()] = true
		for i, group := range []map[string]*credential.Credentials{strangers, s.extra, old} {
			for who, c := range group {
				var side *wire.Side
				if c != nil {
					side = s.side(c)
				}
				var conn *grpc.ClientConn
				if i < 2 {
					conn, err = wire.Dial(s.address, side)
				} else {
					conn, err = grpc.NewClient("passthrough:///"+s.address, grpc.WithTransportCredentials(credentials.NewTLS(showing(c))))
				}
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
		anonymous, err := grpc.NewClient("passthrough:///"+s.address, grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{InsecureSkipVerify: true})))
		if err != nil {
			t.Fatal(err)
		}
		for who, token := range shown {
			for i := range d.Methods().Len() {
				methods++
				refusedTo(t, anonymous, d.Methods().Get(i), who, token)
			}
		}
		for i := range d.Methods().Len() { // no user may call the others, whoever says who it is
			if m := d.Methods().Get(i); s.service != "Listener" || listenerMethods[m.Name()].least == "" {
				refusedTo(t, anonymous, m, "the JWT of an admin", from.Token(t, "u", []string{"admin"}, nil))
			}
		}
		anonymous.Close()
	}
	for i := range rpc.File_proto_rpc_rpc_proto.Services().Len() {
		if d := rpc.File_proto_rpc_rpc_proto.Services().Get(i); !tried[d.Name()] {
			t.Errorf("who may call the service %s?", d.Name())
		}
	}
	if methods < 100 {
		t.Errorf("%d calls were tried", methods)
	}

	// Roles of the job may call what they need, and nothing else.
	for _, c := range []credential.Name{{Kind: credential.Listener}, {Role: "trainer", Index: 1}, {Role: "coordinator"}, {Role: "pserver"}, {Role: "standby"}} {
		who := "listener"
		if c.Kind != credential.Listener {
			who, c.Kind, c.Job = c.Role, credential.Role, "asks"
		}
		for address, name := range map[string]protoreflect.Name{server: "ParameterServer", coordinator: "Coordinator"} {
			conn, err := wire.Dial(address, ofJob(issue(c, time.Hour)))
			if err != nil {
				t.Fatal(err)
			}
			d := rpc.File_proto_rpc_rpc_proto.Services().ByName(name)
			for i := range d.Methods().Len() {
				m := d.Methods().Get(i)
				may, known := roleMethods[m.FullName().Parent().Name()+"."+m.Name()]
				if !known {
					t.Errorf("who may call %s?", m.FullName())
				}
				if strings.Contains(may, who) {
					continue
				}
				if err := wire.FromStatus("peer", callEmpty(bounded(t), conn, m)); !errors.Is(err, fault.Denied) {
					t.Errorf("%s answers a %s: %v", m.FullName(), who, err)
				}
			}
			conn.Close()
		}
	}

	// A user may not start a role, and a trainer may not speak for another one.
	conn, err := wire.Dial(l.Address(), wire.ToListener(issue(userName("u", credential.Admin), time.Hour)))
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

// issuerOf is what a listener checks tokens of an issuer with, whose groups are named as the roles that they give.
func issuerOf(t *testing.T, from *issuertest.Issuer) *issuer.Issuer {
	t.Helper()
	roles := map[string][]string{}
	for _, a := range credential.Accesses() {
		roles[string(a)] = []string{string(a)}
	}
	i, err := issuer.Open(t.Context(), issuer.Config{URL: from.URL, Audience: issuertest.Audience, Roles: roles})
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// refusedTo calls a method with a token, or none if it is empty, on a connection without a certificate.
func refusedTo(t *testing.T, conn *grpc.ClientConn, m protoreflect.MethodDescriptor, who, token string) {
	t.Helper()
	ctx := bounded(t)
	if token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
	}
	err := wire.FromStatus("peer", callEmpty(ctx, conn, m))
	asks := m.Parent().Name() == "Listener" || m.Parent().Name() == "Keeper" // others take no connection without a certificate
	if !errors.Is(err, fault.Denied) && (asks || !errors.Is(err, fault.Unavailable)) {
		t.Errorf("%s answers %s: %v", m.FullName(), who, err)
	}
}

// showing is the configuration of a client that shows its certificate whether it is valid or not.
func showing(c *credential.Credentials) *tls.Config {
	config := c.Client(func(credential.Name) error { return nil })
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return c.Certificate(nil) }
	return config
}

// A job goes on when the credentials that its roles began with have expired, and so does a role that connects to the others then.
func TestCredentialsAreRenewed(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds until credentials have expired")
	}
	t.Parallel()
	r := newRig(t)
	l := listener(t, remote.WithLauncher(r), remote.WithEtcd(r.etcd...), remote.WithCredentialLife(6*time.Second))
	fed := testkit.Fed(t, optimizer.SGD(0.1))
	e := executorOf(t, l, &remote.JobSpec{Name: "renewed", Trainers: 1, Pservers: 1})
	step := func() {
		t.Helper()
		if _, err := e.Run(bounded(t), fed.Program, testkit.Batch(t, fed.Program, 1, 4), fed.Loss); err != nil {
			t.Fatal(err)
		}
	}
	step()
	registry, err := cluster.Open(bounded(t), cluster.Config{Endpoints: r.etcd, Prefix: cluster.Prefix("renewed")})
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
	asking := credentialtest.Listener(t)
	shown := func(address string) time.Time { // until when the certificate is valid that a server shows
		t.Helper()
		config := showing(asking)
		config.VerifyConnection = nil
		conn, err := (&tls.Dialer{Config: config}).DialContext(bounded(t), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		return conn.(*tls.Conn).ConnectionState().PeerCertificates[0].NotAfter
	}
	first := []time.Time{shown(server), shown(coordinator), shown(l.Address())}
	for _, end := range first {
		<-time.After(time.Until(end) + time.Millisecond)
	}
	step()
	for i, address := range []string{server, coordinator, l.Address()} {
		if now := shown(address); !now.After(first[i]) {
			t.Errorf("%s still shows what was valid until %v", address, now)
		}
	}
	began := r.handle("trainer-0")
	began.Kill()
	r.await("the next trainer", func() bool { return r.handles["trainer-0"] != began })
	step()
}

// roleMethods is who may call each method of a role.
var roleMethods = map[protoreflect.Name]string{
	"Coordinator.Join": "trainer", "Coordinator.News": "trainer", "Coordinator.ReportDataset": "trainer", "Coordinator.GetTask": "trainer",
	"Coordinator.TaskFailed": "trainer", "Coordinator.RequestSaveModel": "trainer", "Coordinator.ReportSteps": "trainer", "Coordinator.NextFeed": "trainer", "Coordinator.Evaluate": "trainer",
	"Coordinator.Permit": "trainer", "Coordinator.Leave": "trainer", "Coordinator.Placement": "trainer", "Coordinator.Checkpoint": "trainer listener pserver standby",
	"Coordinator.Feed": "listener", "Coordinator.Finish": "listener", "Coordinator.Acknowledge": "listener", "Coordinator.Watch": "listener",
	"Coordinator.Queues": "listener", "Coordinator.GoBack": "listener", "Coordinator.Move": "listener",
	"ParameterServer.SendVariable": "trainer listener", "ParameterServer.SendBarrier": "trainer", "ParameterServer.GetRows": "trainer",
	"ParameterServer.GetVariable": "trainer coordinator pserver standby", "ParameterServer.CopyRows": "pserver standby", "ParameterServer.OpenData": "trainer",
	"ParameterServer.Freeze": "coordinator", "ParameterServer.Resume": "coordinator", "ParameterServer.Ledger": "coordinator listener",
	"ParameterServer.Cut": "coordinator", "ParameterServer.Hold": "coordinator", "ParameterServer.Restore": "coordinator listener", "ParameterServer.Pace": "trainer",
	"ParameterServer.Counted": "trainer", "ParameterServer.ShareTotals": "trainer", "ParameterServer.Prepare": "listener", "ParameterServer.Arrived": "coordinator", "ParameterServer.Complete": "trainer",
	"ParameterServer.Follow": "standby", "ParameterServer.TakeOver": "listener", "ParameterServer.Status": "listener",
}

// listenerMethods is what each method of a listener asks of a user: the least access, and whether one who is no admin may use it only on what is its own.
var listenerMethods = map[protoreflect.Name]struct {
	least credential.Access // empty: no user may
	own   bool
}{
	"Describe": {credential.Viewer, false}, "List": {credential.Viewer, false}, "Status": {credential.Viewer, false}, "Watch": {credential.Viewer, false},
	"Logs": {credential.Viewer, false}, "Why": {credential.Viewer, false}, "Show": {credential.Viewer, false},
	"Submit": {credential.Submitter, false}, "WriteState": {credential.Submitter, false},
	"ReadState": {credential.Submitter, true}, "ReleaseState": {credential.Submitter, true}, "RunStep": {credential.Submitter, true},
	"Acknowledge": {credential.Submitter, true}, "Checkpoint": {credential.Submitter, true}, "SuspendJob": {credential.Submitter, true}, "Scale": {credential.Submitter, true},
	"Stop": {credential.Submitter, true}, "Finish": {credential.Submitter, true}, "ResumeJob": {credential.Submitter, true},
	"Nodes": {credential.Viewer, false}, "CordonNode": {credential.Admin, false},
	"StartRole": {},
}

// Viewers read, submitters act on what is their own, admins on all.
func TestWhatUsersMayDo(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	from := issuertest.New(t)
	l := listener(t, remote.WithDataDir(data), remote.WithTokens(credential.OpenTokens("")), remote.WithIssuer(issuerOf(t, from)))
	issue := func(name string, access credential.Access) *credential.Credentials {
		return credentialtest.Issue(t, userName(name, access), time.Hour)
	}
	alice := issue("alice", credential.Submitter)
	withToken := func(name string, access credential.Access) *credential.TokenUse {
		file := filepath.Join(t.TempDir(), "token")
		if err := os.WriteFile(file, []byte(from.Token(t, name, []string{string(access)}, nil)+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		use, err := credential.OpenTokenUse(file, authorityFile(t))
		if err != nil {
			t.Fatal(err)
		}
		return use
	}
	reading := testkit.Reading(t, 5, optimizer.SGD(0.1))
	encoded, err := reading.Program.Encode()
	if err != nil {
		t.Fatal(err)
	}
	client, err := remote.Dial(bounded(t), l.Address(), remote.WithCredentials(alice))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	spec := &job.JobSpec{Name: "hers", Program: encoded}
	for name, globs := range testkit.Samples(t, t.TempDir(), 20) {
		spec.Data = append(spec.Data, &job.DataBinding{Dataset: name, Globs: globs})
	}
	if _, err := client.Submit(bounded(t), spec); !errors.Is(err, fault.Denied) || !strings.Contains(err.Error(), "--allow-data") {
		t.Errorf("a submitter reads what the listener does not allow: %v", err)
	}
	fed := testkit.Fed(t, optimizer.SGD(0.1))
	if spec.Program, err = fed.Program.Encode(); err != nil {
		t.Fatal(err)
	}
	spec.Data, spec.Fed = nil, true
	id, err := client.Submit(bounded(t), spec)
	if err != nil {
		t.Fatal(err)
	}
	asJWT, err := remote.Dial(bounded(t), l.Address(), remote.WithTokenUse(withToken("alice", credential.Submitter)))
	if err != nil {
		t.Fatal(err)
	}
	defer asJWT.Close()
	state, err := asJWT.WriteState(bounded(t), &rpc.StateValues{}) // of the same alice
	if err != nil {
		t.Fatal(err)
	}
	if s, err := client.Status(bounded(t), id); err != nil || s.Owner != "alice" {
		t.Errorf("the job belongs to %q, %v", s.GetOwner(), err)
	}

	methods := rpc.File_proto_rpc_rpc_proto.Services().ByName("Listener").Methods()
	type user struct {
		name   string
		access credential.Access
		jwt    bool
	}
	certified := []user{{"eve", credential.Viewer, false}, {"alice", credential.Viewer, false}, {"bob", credential.Submitter, false}, {"root", credential.Admin, false}}
	issued := []user{{"eve", credential.Viewer, true}, {"alice", credential.Viewer, true}, {"bob", credential.Submitter, true}}
	for _, who := range slices.Concat(issued, certified) {
		side := wire.ToListener(issue(who.name, who.access))
		if who.jwt {
			side = wire.ToListenerAs(withToken(who.name, who.access))
		}
		conn, err := wire.Dial(l.Address(), side)
		if err != nil {
			t.Fatal(err)
		}
		for i := range methods.Len() {
			m := methods.Get(i)
			asks, known := listenerMethods[m.Name()]
			if !known {
				t.Errorf("the table does not know %s", m.Name())
				continue
			}
			in := dynamicpb.NewMessage(m.Input())
			for field, value := range map[protoreflect.Name]string{"job": id, "state": state} {
				if f := m.Input().Fields().ByName(field); f != nil {
					in.Set(f, protoreflect.ValueOfString(value))
				}
			}
			if f := m.Input().Fields().ByName("id"); f != nil { // of a piece
				of := in.Mutable(f).Message()
				of.Set(f.Message().Fields().ByName("job"), protoreflect.ValueOfString(id))
			}
			may := asks.least != "" && who.access.Covers(asks.least) && (!asks.own || who.access == credential.Admin)
			err := wire.FromStatus("listener", callWith(bounded(t), conn, m, in))
			if denied := errors.Is(err, fault.Denied); denied == may {
				t.Errorf("%s from the %s %s (with a JWT: %t): %v", m.Name(), who.access, who.name, who.jwt, err)
			}
		}
		conn.Close()
	}

	// Nobody takes the name of another user's job, which would replace its checkpoints.
	bob, err := remote.Dial(bounded(t), l.Address(), remote.WithCredentials(issue("bob", credential.Submitter)))
	if err != nil {
		t.Fatal(err)
	}
	defer bob.Close()
	if err := bob.Stop(bounded(t), id); !errors.Is(err, fault.Denied) {
		t.Errorf("bob stops what alice has started: %v", err)
	}
	if _, err := bob.Submit(bounded(t), spec); !errors.Is(err, fault.Denied) {
		t.Errorf("bob submits a job of the name of another one: %v", err)
	}

	// Nor does he let his jobs come before those of others.
	urgent := proto.CloneOf(spec)
	urgent.Name, urgent.Priority = "urgent", 1
	if _, err := bob.Submit(bounded(t), urgent); !errors.Is(err, fault.Denied) || !strings.Contains(err.Error(), "the priority 1") {
		t.Errorf("bob submits a job of a high priority: %v", err)
	}

	// Nobody knows who calls without a certificate or a token.
	anonymous, err := grpc.NewClient("passthrough:///"+l.Address(), grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{InsecureSkipVerify: true})))
	if err != nil {
		t.Fatal(err)
	}
	defer anonymous.Close()
	for i := range methods.Len() {
		refusedTo(t, anonymous, methods.Get(i), "nobody", "")
	}

	// The audit log has what was done and what was refused.
	log, err := os.ReadFile(filepath.Join(data, "audit.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	hash, err := fed.Program.Hash()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range [][]string{
		{`"user":"user/alice/submitter"`, `"method":"Submit"`, `"job":"hers"`, `"program":"` + hash.String() + `"`, `"outcome":"ok"`},
		{`"user":"user/bob/submitter"`, `"method":"Stop"`, `"job":"hers"`, `"outcome":"access denied"`},
		{`"user":"user/eve/viewer"`, `"method":"Submit"`, `"outcome":"access denied"`},
		{`"method":"end"`, `"job":"hers"`, `"outcome":"stopped"`},
	} {
		if !slices.ContainsFunc(strings.Split(string(log), "\n"), func(line string) bool {
			return !slices.ContainsFunc(want, func(part string) bool { return !strings.Contains(line, part) })
		}) {
			t.Errorf("no line of the audit log has %v:\n%s", want, log)
		}
	}
	noted := func(method protoreflect.Name, user string, denied bool) bool {
		for line := range strings.Lines(string(log)) {
			if strings.Contains(line, fmt.Sprintf("%q:%q", "method", method)) && strings.Contains(line, user) && strings.Contains(line, "access denied") == denied {
				return true
			}
		}
		return false
	}
	if !noted("ReadState", "user/alice/submitter", false) {
		t.Error("alice has not confirmed that she knows the state that she has written")
	}
	for i := range methods.Len() {
		m := methods.Get(i).Name()
		asks := listenerMethods[m]
		if !noted(m, "unknown", true) {
			t.Errorf("the audit log has no line of who calls %s and is not known", m)
		}
		if asks.least != credential.Viewer && !noted(m, "user/eve/viewer", true) {
			t.Errorf("the audit log has no line of a viewer who may not call %s", m)
		}
		changes := asks.least == credential.Submitter || asks.least == credential.Admin
		if each := m == "RunStep" || m == "Acknowledge"; noted(m, "user/root/admin", false) != (changes && !each) {
			t.Errorf("the audit log has a line of an admin who calls %s, which changes something (%t), or lacks it", m, changes)
		}
	}
}

// authorityFile is the file of the authority of the tests, which has its certificate.
func authorityFile(t *testing.T) string {
	t.Helper()
	file, err := credential.File()
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// Alice is a submitter at one listener and a viewer at another, and what the authority of the first one gives her counts for nothing at the second.
func TestListenersOfTwoAuthorities(t *testing.T) {
	t.Parallel()
	roles := []credential.Access{credential.Submitter, credential.Viewer}
	var own []*credential.Credentials // of alice, by listener
	var at []*remote.Listener
	for _, access := range roles {
		authority, err := credential.NewAuthority()
		if err != nil {
			t.Fatal(err)
		}
		issued, err := authority.Issue(userName("alice", access), time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		own, at = append(own, issued), append(at, listener(t, remote.WithAuthority(authority)))
	}
	for i, l := range at {
		for k, shown := range own {
			client, err := remote.Dial(bounded(t), l.Address(), remote.WithCredentials(shown))
			if i != k {
				if err == nil {
					t.Errorf("listener %d takes the credentials of listener %d", i, k)
					client.Close()
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, err := client.Jobs(bounded(t)); err != nil {
				t.Errorf("listener %d: %v", i, err)
			}
			_, err = client.WriteState(bounded(t), &rpc.StateValues{})
			if denied := errors.Is(err, fault.Denied); denied != (roles[i] == credential.Viewer) {
				t.Errorf("alice, a %s of listener %d, writes a state: %v", roles[i], i, err)
			}
			client.Close()
		}
	}
}
