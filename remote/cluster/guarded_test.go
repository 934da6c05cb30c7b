package cluster

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote/credential"
)

// An embedded server with credentials answers those who have credentials of the same authority, and nobody else.
func TestEmbeddedServerAsksWhoCalls(t *testing.T) {
	issue := func() *credential.Credentials {
		a, err := credential.NewAuthority()
		if err != nil {
			t.Fatal(err)
		}
		c, err := a.Issue(credential.Name{Kind: credential.Listener}, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	own := issue()
	server, err := Embed(t.Context(), filepath.Join(t.TempDir(), "etcd"), nil, own)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	for name, c := range map[string]*credential.Credentials{"own": own, "nobody": nil, "another authority": issue()} {
		r, err := Open(bounded(t), Config{Endpoints: server.Endpoints(), Prefix: Prefix("x"), Own: c, getenv: func(string) string { return "" }})
		if (err == nil) != (c == own) {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			r.Close()
		} else if !errors.Is(err, fault.InvalidArgument) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// It speaks no version of TLS before 1.3.
	endpoint, err := url.Parse(server.Endpoints()[0])
	if err != nil {
		t.Fatal(err)
	}
	conn, err := tls.Dial("tcp", endpoint.Host, &tls.Config{MaxVersion: tls.VersionTLS12, InsecureSkipVerify: true})
	if err == nil {
		conn.Close()
		t.Errorf("the server speaks TLS version %x", conn.ConnectionState().Version)
	}
}

// The roles of a job reach the keys of their job, and neither those of another job or of nodes, nor the users, from when the listener opens the registry of the job until it removes the job.
func TestRolesReachTheirOwnKeys(t *testing.T) {
	a, err := credential.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	issue := func(name credential.Name) *credential.Credentials {
		c, err := a.Issue(name, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	listener, role := credential.Name{Kind: credential.Listener}, credential.Name{Kind: credential.Role, Job: "mine", Role: "trainer"}
	server, err := Embed(bounded(t), filepath.Join(t.TempDir(), "etcd"), nil, issue(listener))
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	open := func(name credential.Name, prefix, roles string) (Registry, error) {
		r, err := Open(bounded(t), Config{Endpoints: server.Endpoints(), Prefix: prefix, Own: issue(name), Roles: roles, renewEvery: 20 * time.Millisecond})
		if err == nil {
			t.Cleanup(func() { _ = r.Close() })
		}
		return r, err
	}
	must := func(r Registry, err error) Registry {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	refused := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, fault.InvalidArgument) {
			t.Errorf("%s: %v, want a refusal", what, err)
		}
	}
	_, err = open(role, Prefix("mine"), "")
	refused("a job that no listener has opened", err)
	mine := must(open(listener, Prefix("mine"), role.EtcdUser()))
	must(open(listener, Prefix("mine"), role.EtcdUser())) // as the next listener does
	other := must(open(listener, Prefix("other"), credential.Name{Kind: credential.Role, Job: "other"}.EtcdUser()))
	owner, err := mine.Claim(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := other.SetDesired(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	own := must(open(role, Prefix("mine"), ""))
	leader, err := own.LeadCoordinator(t.Context(), "here:1") // a lease, a transaction and a watch
	if err != nil {
		t.Fatal(err)
	}
	if address, err := must(open(credential.Name{Kind: credential.Role, Job: "mine", Role: "pserver", Index: 7}, Prefix("mine"), "")).Coordinator(t.Context()); err != nil || address != "here:1" {
		t.Errorf("another role of the job finds %q, %v", address, err)
	}
	for _, prefix := range []string{"other", "mine-too", "min"} {
		_, err := open(role, Prefix(prefix), "")
		refused("keys below "+prefix, err)
	}
	r := own.(*registry)
	for _, key := range []string{Prefix("other") + desiredKey, nodesPrefix + "node", Prefix("mine")} {
		_, err := r.look(t.Context(), key)
		refused("reading "+key, err)
		_, _, err = r.commit(t.Context(), txn{puts: []put{{key: key, value: "1"}}}, nil)
		refused("writing "+key, err)
		_, _, err = r.commit(t.Context(), txn{clears: []string{key}}, nil)
		refused("removing "+key, err)
		refused("watching "+key, r.store.follow(bounded(t), key, func(view) bool { return true }))
	}
	_, err = own.Nodes(t.Context())
	refused("nodes", err)
	store := r.store.(*etcdStore)
	refused("users", store.admit(t.Context(), "job/other", Prefix("mine")))
	refused("users of others", store.dismiss(t.Context(), "job/other"))
	if lent, err := other.(*registry).store.grant(t.Context()); err != nil {
		t.Error(err)
	} else if _, _, err = other.(*registry).commit(t.Context(), txn{puts: []put{{key: Prefix("other") + ownerKey, value: "", lease: lent}}}, nil); err != nil {
		t.Error(err)
	} else {
		refused("the lease of another job", store.revoke(t.Context(), lent.id()))
	}
	if n, err := other.Desired(t.Context()); err != nil || n != 3 {
		t.Errorf("the other job has %d, %v", n, err)
	}
	if err := leader.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := mine.Remove(t.Context(), owner); err != nil {
		t.Fatal(err)
	}
	_, err = own.Live(t.Context())
	refused("a job that has ended", err)
	_, err = open(role, Prefix("mine"), "")
	refused("a new connection for a job that has ended", err)
}

// What members of a job do meanwhile is not disturbed by users that come and go with other jobs.
func TestUsersComeAndGo(t *testing.T) {
	a, err := credential.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	own, err := a.Issue(credential.Name{Kind: credential.Listener}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	server, err := Embed(bounded(t), filepath.Join(t.TempDir(), "etcd"), nil, own)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	open := func(c Config) *registry {
		c.Endpoints = server.Endpoints()
		r, err := Open(bounded(t), c)
		if err != nil {
			t.Error(err)
			return nil
		}
		t.Cleanup(func() { _ = r.Close() })
		return r.(*registry)
	}
	name := credential.Name{Kind: credential.Role, Job: "busy", Role: "coordinator"}
	listener := open(Config{Prefix: Prefix("busy"), Own: own, Roles: name.EtcdUser()})
	role, err := a.Issue(name, time.Hour)
	if listener == nil || err != nil {
		t.Fatal(err)
	}
	busy := open(Config{Prefix: Prefix("busy"), Own: role})
	if busy == nil {
		t.FailNow()
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 50 {
			store := listener.store.(*etcdStore)
			user := fmt.Sprint("job/", i)
			if err := errors.Join(store.admit(t.Context(), user, Prefix(fmt.Sprint(i))), store.dismiss(t.Context(), user)); err != nil {
				t.Error(err)
			}
		}
	}()
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for n := 1; ; n++ {
				_, _, err := busy.commit(t.Context(), txn{puts: []put{{key: busy.prefix + desiredKey, value: fmt.Sprint(n)}}}, nil)
				_, failed := busy.look(t.Context(), busy.prefix+desiredKey)
				if err := errors.Join(err, failed); err != nil {
					t.Error(err)
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	group.Wait()
}
