package remote_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/remote/credential"
	"github.com/edl-go/edl/remote/credential/credentialtest"
	"github.com/edl-go/edl/remote/wire"
)

// ofRoles are the credentials of a user with roles as credential.ParseGrants reads them.
func ofRoles(t *testing.T, user string, roles ...string) *credential.Credentials {
	t.Helper()
	access, within, err := credential.ParseGrants(roles...)
	if err != nil {
		t.Fatal(err)
	}
	return credentialtest.Issue(t, credential.Name{Kind: credential.User, User: user, Access: access, Within: within}, time.Hour)
}

// dialAs is a client of a user.
func dialAs(t *testing.T, l *remote.Listener, own *credential.Credentials) *remote.Client {
	t.Helper()
	client, err := remote.Dial(bounded(t), l.Address(), remote.WithCredentials(own))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

// Who has roles in other namespaces only, be it as an admin there, may use no method on a job or a state, and does not learn that it is there: the answer is the one for a job that is
// not. Within the namespace users may what they may at a listener without namespaces, and the listener itself is for those who have a role in all.
func TestNamespacesOfAListener(t *testing.T) {
	t.Parallel()
	dir, data := t.TempDir(), t.TempDir()
	l := listener(t, remote.WithDataDir(data), remote.WithAllowedData("ads="+dir), remote.WithAllowedSave("ads="+filepath.Join(dir, "models")))
	ann := dialAs(t, l, ofRoles(t, "ann", "submitter@ads"))
	reading := testkit.Reading(t, 5, optimizer.SGD(0.1))
	encoded, err := reading.Program.Encode()
	if err != nil {
		t.Fatal(err)
	}
	spec := &job.JobSpec{Name: "hers", Program: encoded, Trainers: 1, Pservers: 1, Passes: 1 << 20}
	for name, globs := range testkit.Samples(t, dir, 20) {
		spec.Data = append(spec.Data, &job.DataBinding{Dataset: name, Globs: globs})
	}
	id, err := ann.Submit(bounded(t), proto.CloneOf(spec)) // to the only namespace in which she may
	if err != nil || id != "ads.hers" {
		t.Fatal(id, err)
	}
	if s, err := ann.Status(bounded(t), "hers"); err != nil || s.Job != id { // by the name that she has submitted it with
		t.Fatal(s, err)
	}
	state, err := ann.WriteState(bounded(t), &rpc.StateValues{})
	if err != nil || !strings.HasPrefix(state, "ads.") {
		t.Fatal(state, err)
	}

	methods := rpc.File_proto_rpc_rpc_proto.Services().ByName("Listener").Methods()
	for _, roles := range [][]string{{"admin@rank"}, {"submitter@rank", "viewer@default"}, {"viewer@rank"}} {
		for _, user := range []string{"ann", "eve"} { // a name alone gives nothing
			conn, err := wire.Dial(l.Address(), wire.ToListener(ofRoles(t, user, roles...)))
			if err != nil {
				t.Fatal(err)
			}
			most := credential.Name{Within: credential.Grants(strings.Join(roles, ","))}.Most()
			for i := range methods.Len() {
				m := methods.Get(i)
				asks := listenerMethods[m.Name()]
				ask := func(id, state string) (told *dynamicpb.Message, named bool, err error) {
					in := dynamicpb.NewMessage(m.Input())
					for field, value := range map[protoreflect.Name]string{"job": id, "state": state} {
						if f := m.Input().Fields().ByName(field); f != nil && f.Kind() == protoreflect.StringKind {
							in.Set(f, protoreflect.ValueOfString(value))
							named = true
						}
					}
					if f := m.Input().Fields().ByName("id"); f != nil && m.Name() == "RunStep" { // of a piece
						of := in.Mutable(f).Message()
						of.Set(f.Message().Fields().ByName("job"), protoreflect.ValueOfString(id))
						named = true
					}
					return in, named, wire.FromStatus("listener", callWith(bounded(t), conn, m, in))
				}
				_, named, err := ask(id, state)
				_, _, none := ask("ads.none", "ads.state-NONE")
				switch {
				case asks.least == "" || !most.Covers(asks.least) || m.Name() == "Nodes" || m.Name() == "CordonNode":
					if !errors.Is(err, fault.Denied) {
						t.Errorf("%s from %s with %v: %v", m.Name(), user, roles, err)
					}
				case named:
					hides := strings.NewReplacer(id, "JOB", "ads.none", "JOB", state, "STATE", "ads.state-NONE", "STATE")
					if !errors.Is(err, fault.NotFound) || none == nil || hides.Replace(err.Error()) != hides.Replace(none.Error()) {
						t.Errorf("%s from %s with %v: %v, and where there is nothing: %v", m.Name(), user, roles, err, none)
					}
				case errors.Is(err, fault.Denied):
					t.Errorf("%s from %s with %v: %v", m.Name(), user, roles, err)
				}
			}
			conn.Close()
			other := dialAs(t, l, ofRoles(t, user, roles...))
			if jobs, err := other.Jobs(bounded(t)); err != nil || len(jobs) > 0 {
				t.Errorf("%s with %v sees %v, %v", user, roles, jobs, err)
			}
			if _, err := other.Status(bounded(t), "none"); !errors.Is(err, fault.NotFound) || strings.Contains(err.Error(), "hers") {
				t.Errorf("%s with %v looks for a job: %v", user, roles, err)
			}
		}
	}

	// Names are those of a namespace, what a namespace may read is for its jobs alone, and its states are, too.
	bob := dialAs(t, l, ofRoles(t, "bob", "submitter@rank", "viewer@ads"))
	if _, err := bob.Submit(bounded(t), proto.CloneOf(spec)); !errors.Is(err, fault.Denied) || !strings.Contains(err.Error(), "--allow-data") || strings.Contains(err.Error(), "want a place below "+dir) {
		t.Errorf("a job of rank reads what is for ads: %v", err)
	}
	fed := testkit.Fed(t, optimizer.SGD(0.1))
	his := &job.JobSpec{Name: "hers", Fed: true}
	if his.Program, err = fed.Program.Encode(); err != nil {
		t.Fatal(err)
	}
	for namespace, want := range map[string]error{"ads": fault.Denied, "default": fault.Denied, "secret": fault.Denied} {
		theirs := proto.CloneOf(his)
		theirs.Namespace = namespace
		if _, err := bob.Submit(bounded(t), theirs); !errors.Is(err, want) {
			t.Errorf("bob submits to %s: %v", namespace, err)
		}
		if _, err := bob.WriteState(bounded(t), &rpc.StateValues{Namespace: namespace}); !errors.Is(err, want) {
			t.Errorf("bob writes a state of %s: %v", namespace, err)
		}
	}
	with := proto.CloneOf(his)
	with.State = state
	if _, err := bob.Submit(bounded(t), with); !errors.Is(err, fault.NotFound) {
		t.Errorf("a job of rank begins with a state of ads: %v", err)
	}
	if id, err := bob.Submit(bounded(t), his); err != nil || id != "rank.hers" {
		t.Errorf("a job of the same name in another namespace: %s, %v", id, err)
	}
	if err := bob.Stop(bounded(t), id); !errors.Is(err, fault.Denied) { // he sees it
		t.Errorf("bob stops a job of ads: %v", err)
	}
	urgent := proto.CloneOf(spec)
	urgent.Priority = 1
	if _, err := dialAs(t, l, ofRoles(t, "root", "admin@ads")).Submit(bounded(t), urgent); !errors.Is(err, fault.Denied) {
		t.Errorf("an admin of one namespace lets a job come before those of others: %v", err)
	}

	// The job makes checkpoints in the folder of its namespace, and goes on there by its name.
	admin := dialAs(t, l, ofRoles(t, "root", "admin@ads"))
	if _, err := remote.Checkpoint(bounded(t), admin, id); err != nil {
		t.Fatal(err)
	}
	if err := admin.Stop(bounded(t), id); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(data, "jobs", id, "checkpoints")); err != nil {
		t.Error(err)
	}
	if next, err := remote.Resume(bounded(t), ann, &rpc.ResumeJobRequest{Job: id}); err != nil || next.Job != id {
		t.Errorf("%v goes on: %v", next, err)
	}
	if err := ann.Stop(bounded(t), id); err != nil {
		t.Error(err)
	}
	all, err := dialAs(t, l, ofRoles(t, "eve", "viewer")).Jobs(bounded(t))
	if err != nil || len(all) != 2 {
		t.Errorf("a viewer of all namespaces sees %v, %v", all, err)
	}
}
