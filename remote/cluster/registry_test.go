package cluster

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/edl-go/edl/proto/job"
)

// home is a store that the suite runs over. Each test has a job of its own.
type home struct {
	*testing.T
	handle func(c Config) (Registry, error)
	end    func(prefix string, m Member) // declares the member lost and ends its lease
	lapse  func(prefix string, m Member) // ends its lease, and says nothing
	prefix string
}

// longLease is the lease of members unless a test says otherwise: no stall of a busy machine ends it.
const longLease = time.Minute

// watchful makes a member notice soon that its lease has ended in etcd.
var watchful = Config{renewEvery: 20 * time.Millisecond}

func (h *home) open() Registry { return h.openWith(Config{}) }

// openWith opens a handle; the test's own prefix and a long lease stand for those that c leaves open.
func (h *home) openWith(c Config) Registry {
	h.Helper()
	c.Prefix, c.Lease = cmp.Or(c.Prefix, h.prefix), cmp.Or(c.Lease, longLease)
	r, err := h.handle(c)
	if err != nil {
		h.Fatal(err)
	}
	h.Cleanup(func() { _ = r.Close() })
	return r
}

// view returns the keys of the job.
func (h *home) view() view {
	h.Helper()
	r := h.open().(*registry)
	v, err := r.look(h.Context(), h.prefix+"/")
	if err != nil {
		h.Fatal(err)
	}
	return v
}

func (h *home) ok(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

// member returns the membership of a call that must succeed.
func (h *home) member(m Membership, err error) Membership {
	h.Helper()
	h.ok(err)
	return m
}

var (
	server0     = Member{Role: job.Role_PSERVER}
	trainer0    = Member{Role: job.Role_TRAINER}
	coordinator = Member{Role: job.Role_COORDINATOR}
)

// openAt opens handles at servers.
func openAt(t *testing.T, endpoints func() []string) func(Config) (Registry, error) {
	return func(c Config) (Registry, error) {
		c.Endpoints = endpoints()
		return Open(t.Context(), c)
	}
}

func TestRegistry(t *testing.T) {
	t.Parallel()
	server := embedded(t)
	client, err := clientv3.New(clientv3.Config{Endpoints: server.Endpoints(), Logger: zapTo(context.Background(), nil)})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	memory := NewMemory()
	homes := map[string]home{
		"memory": {
			handle: func(c Config) (Registry, error) { return memory.Open(c.Prefix) },
			end:    memory.Expire,
			lapse:  func(prefix string, m Member) { memory.expire(prefix, m, false) },
		},
		"etcd": {
			handle: openAt(t, server.Endpoints),
			end: func(prefix string, m Member) {
				r, err := Open(t.Context(), Config{Endpoints: server.Endpoints(), Prefix: prefix, Lease: longLease})
				if err == nil {
					err = errors.Join(r.RevokeLease(t.Context(), m, 0), r.Close())
				}
				if err != nil {
					t.Fatal(err)
				}
			},
			lapse: func(prefix string, m Member) { endLease(t, client, prefix+memberKey(m)) },
		},
	}
	for name, h := range homes {
		t.Run(name, func(t *testing.T) {
			for _, c := range suite {
				t.Run(c.name, func(t *testing.T) {
					mine := h
					mine.T, mine.prefix = t, Prefix(c.job)
					c.test(&mine)
				})
			}
		})
	}
}

func endLease(t *testing.T, client *clientv3.Client, key string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r, err := client.Get(ctx, key)
	if err != nil || len(r.Kvs) != 1 {
		t.Fatalf("%s: %v, %v", key, r, err)
	}
	if _, err := client.Revoke(ctx, clientv3.LeaseID(r.Kvs[0].Lease)); err != nil {
		t.Fatal(err)
	}
}

var suite = []struct {
	name, job string
	test      func(*home)
}{
	{"the number of servers outlives who said it", "desired", testDesired},
	{"servers claim indexes", "claim", testClaim},
	{"servers claim any index at once", "any", testClaimAny},
	{"addresses are waited for", "servers", testServers},
	{"a wait that ends names what is missing", "missing", testMissing},
	{"one coordinator at a time", "lead", testLead},
	{"a coordinator that lost its lease changes nothing", "fenced", testFenced},
	{"lost members are reported", "lost", testLost},
	{"past losses are reported", "past", testPastLosses},
	{"nodes", "some", testNodes},
	{"jobs do not meet", "near", testJobsApart},
	{"a closed handle", "closed", testClosed},
	{"keys are those of the founding documents", "keys", testKeys},
	{"the number of trainers", "trainers", testTrainers},
	{"addresses are followed", "follow", testFollow},
	{"the first pserver dies first", "first", testFirstServerDiesFirst},
	{"leases of the dead are revoked", "revoke", testRevokeLease},
	{"members that live", "live", testLive},
	{"losses that nobody saw", "behind", testLostBehindItsBack},
	{"state", "state", testState},
	{"large state", "large", testLargeState},
	{"what state refuses", "refuses", testStateRefuses},
	{"state of a coordinator without the lock", "lock-lost", testStateFenced},
	{"a commit whose answer is lost", "answer", testAnswerLost},
	{"a commit that is given up", "given-up", testGivenUp},
	{"a load that is given up", "load-given-up", testLoadGivenUp},
	{"a commit that comes late", "late", testLate},
	{"a commit that the store refuses", "refused", testRefused},
	{"a commit that is given up between two transactions", "between", testGivenUpBetween},
	{"a claim whose answer is lost", "claimed", testClaimAnswerLost},
	{"a leave whose answer is lost", "left", testLeaveAnswerLost},
	{"an attempt that is forgotten", "forget", testForget},
	{"a lease that ends although its member lives", "anew", testAnew},
	{"a member without its key, and who takes it for lost", "contest", testContest},
	{"a member without its key that answers", "answers", testAnswers},
	{"a member that leaves without its key", "leaves", testLeaveWithoutKey},
	{"a member that is declared lost while it takes its key anew", "declared", testDeclaredMeanwhile},
	{"a job that has ended leaves nothing", "remove", testRemove},
	{"arguments out of range", "range", testRange},
}

// bounded ends with the test, and when patience does.
func bounded(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// eventually waits until what holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ctx := bounded(t)
	looks := time.NewTicker(5 * time.Millisecond)
	defer looks.Stop()
	for !holds() {
		select {
		case <-ctx.Done():
			t.Fatal("no ", what)
		case <-looks.C:
		}
	}
}

// expect receives what must come.
func expect[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-bounded(t).Done():
		t.Fatal("nothing came")
	}
	panic("unreachable")
}

// A store that is closing grants no lease: no key is left that nobody holds.
func TestGrantWhileClosing(t *testing.T) {
	m := NewMemory()
	for range 200 {
		s := &memoryStore{memory: m, leases: map[*memoryLease]bool{}}
		var granting sync.WaitGroup
		for range 200 {
			l, err := s.grant(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			granting.Go(func() {
				<-l.lost()
				l, err := s.grant(t.Context())
				if err == nil {
					_, _, _ = s.commit(t.Context(), txn{puts: []put{{key: "/edl/digits", lease: l}}})
				}
			})
		}
		if err := s.close(); err != nil {
			t.Fatal(err)
		}
		granting.Wait()
	}
	if left := m.below("/edl/"); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}
