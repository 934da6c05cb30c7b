package listen

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/credential"
)

// The audit log goes on where it ended, has lines that no name can forge, and keeps a bounded number of files.
func TestAuditLog(t *testing.T) {
	dir := t.TempDir()
	open := func() *audit {
		a, err := openAudit(dir)
		if err != nil {
			t.Fatal(err)
		}
		a.most = 1000
		return a
	}
	written := 0
	for range 2 {
		a := open()
		for range 20 {
			if err := a.write(auditLine{User: "user/eve\n{}\x1b", Method: "Submit", Outcome: "ok", Error: strings.Repeat("x", 2*auditText)}); err != nil {
				t.Fatal(err)
			}
			written++
		}
		if err := a.close(); err != nil {
			t.Fatal(err)
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) != auditFiles {
		t.Fatalf("%v, %v", files, err)
	}
	lines := 0
	for _, name := range files {
		info, err := os.Stat(name)
		if err != nil || info.Mode().Perm() != 0o600 || info.Size() > 2*auditText {
			t.Errorf("%s has mode %v and %d bytes, %v", name, info.Mode(), info.Size(), err)
		}
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for in := bufio.NewScanner(f); in.Scan(); lines++ {
			var l auditLine
			if err := json.Unmarshal(in.Bytes(), &l); err != nil || l.User != "user/eve\n{}\x1b" || l.Time.IsZero() || strings.ContainsRune(in.Text(), '\x1b') {
				t.Errorf("%q: %v", in.Text(), err)
			}
		}
	}
	if lines == 0 || lines > written {
		t.Errorf("%d lines of %d are kept", lines, written)
	}
}

// Unknown callers get few lines, so they do not push out the lines of others. A line says how many were left out before it.
func TestLinesOfStrangers(t *testing.T) {
	a, err := openAudit(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer a.close()
	now := a.counted
	for n := range strangerLines + 40 {
		if left, may := a.stranger(now); may != (n < strangerLines) || left != 0 {
			t.Fatalf("line %d: %t, %d left out", n, may, left)
		}
	}
	if left, may := a.stranger(now.Add(strangerPause + time.Second)); !may || left != 40 {
		t.Errorf("after a pause: %t, %d left out, want 40", may, left)
	}
	if _, may := a.stranger(now.Add(strangerPause + 2*time.Second)); may {
		t.Error("and at once another one")
	}
	for n := range strangerLines + 1 { // the clock of a day later gives no more than at the beginning
		if _, may := a.stranger(now.Add(24 * time.Hour)); may != (n < strangerLines) {
			t.Fatalf("line %d of the next day: %t", n, may)
		}
	}
}

// A user can take its share of what a listener has, and leaves the rest to others.
func TestBudgets(t *testing.T) {
	b := &budget{}
	eve, bob, root := caller{user: "eve", access: credential.Viewer}, caller{user: "bob", access: credential.Viewer}, caller{user: "root", access: credential.Admin}
	var leave []func()
	enter := func(c caller) error {
		l, err := b.enter(c)
		if err == nil {
			leave = append(leave, l)
		}
		return err
	}
	for range maxCallsOfUser {
		if err := enter(eve); err != nil {
			t.Fatal(err)
		}
	}
	if err := enter(eve); !errors.Is(err, fault.TooLarge) || !strings.Contains(err.Error(), `"eve"`) || !strings.Contains(err.Error(), "at most 512") {
		t.Errorf("one call more of a user: %v", err)
	}
	if err := enter(bob); err != nil {
		t.Errorf("a call of another user: %v", err)
	}
	for len(leave) < maxCalls {
		if err := enter(root); err != nil {
			t.Fatal(err)
		}
	}
	if err := enter(root); !errors.Is(err, fault.TooLarge) {
		t.Errorf("one call more of all: %v", err)
	}
	for _, l := range leave {
		l()
	}
	if b.calls != 0 || len(b.of) != 0 {
		t.Errorf("%d calls and %v are left", b.calls, b.of)
	}

	nothing := upload{of: b, by: bob} // of the first caller
	nothing.end()
	one, other := upload{of: b, by: root}, upload{of: b, by: bob}
	his := upload{of: b, by: bob}
	if err := errors.Join(his.add(5), other.add(maxUploadsOfUser-5)); err != nil {
		t.Fatal(err)
	}
	if err := his.add(1); !errors.Is(err, fault.TooLarge) || !strings.Contains(err.Error(), `"bob"`) {
		t.Errorf("more bytes than a user has room for: %v", err)
	}
	his.end()
	other.end()
	if err := errors.Join(one.add(maxUploads-5), other.add(5)); err != nil {
		t.Fatal(err)
	}
	if err := other.add(1); !errors.Is(err, fault.TooLarge) {
		t.Errorf("more bytes than there is room for: %v", err)
	}
	one.end()
	if err := other.add(maxUploadsOfUser - 5); err != nil {
		t.Errorf("room that is free again: %v", err)
	}
	other.end()
	if b.uploads != 0 || len(b.uploadsOf) != 0 {
		t.Errorf("%d bytes and %v are left", b.uploads, b.uploadsOf)
	}
}

// A message that does not go on takes room only for a while, one that was given up is no error of the listener, and each piece counts.
func TestUploadsEnd(t *testing.T) {
	for what, c := range map[string]struct {
		then func(ctx context.Context) ([]byte, error) // after the first piece
		want error
	}{
		"silence":  {func(ctx context.Context) ([]byte, error) { <-ctx.Done(); return nil, ctx.Err() }, fault.DeadlineExceeded},
		"the end":  {func(context.Context) ([]byte, error) { return nil, io.EOF }, nil},
		"given up": {func(context.Context) ([]byte, error) { return nil, status.Error(codes.Canceled, "context canceled") }, fault.Canceled},
		"too much": {func(context.Context) ([]byte, error) { return make([]byte, 8), nil }, fault.TooLarge},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, over := context.WithCancel(t.Context())
			defer over()
			b, eve := &budget{}, caller{user: "eve", access: credential.Submitter}
			other, u := upload{of: b, by: eve}, upload{of: b, by: eve}
			if err := other.add(maxUploadsOfUser - 8); err != nil {
				t.Fatal(err)
			}
			began, first := time.Now(), true
			err := u.receive(&job.JobSpec{}, maxSpec, time.Minute, func() ([]byte, error) {
				if !first {
					return c.then(ctx)
				}
				first = false
				return proto.Marshal(&job.JobSpec{Name: "x"})
			})
			if !errors.Is(err, c.want) || time.Since(began) > time.Minute || u.bytes == 0 {
				t.Errorf("%s: %v after %v, %d bytes", what, err, time.Since(began), b.uploads)
			}
			u.end()
			if other.end(); b.uploads != 0 {
				t.Errorf("%s: %d bytes are left", what, b.uploads)
			}
		})
	}
}

// The roles of all jobs that run are bounded, and those of one user to half of that.
func TestRolesAreBounded(t *testing.T) {
	m := NewManager(Config{MaxRoles: 20})
	defer m.Close()
	job := func(owner string, trainers, pservers int32) *Job {
		return &Job{owner: owner, done: make(chan struct{}), spec: &job.JobSpec{Trainers: 1, TrainersMax: trainers, Pservers: pservers, Standby: 1}}
	}
	m.jobs["a"] = job("eve", 2, 2) // 1 + 2 + 2 + 2
	for _, c := range []struct {
		owner  string
		access credential.Access
		roles  int32 // beside a coordinator, a pserver and its standby
		good   bool
	}{{"eve", credential.Submitter, 1, false}, {"bob", credential.Submitter, 7, true}, {"bob", credential.Submitter, 8, false},
		{"eve", credential.Admin, 10, true}, {"bob", credential.Admin, 11, false}} {
		err := admitRoles(m, job(c.owner, c.roles, 1), c.access)
		if (err == nil) != c.good || err != nil && (!errors.Is(err, fault.TooLarge) || !strings.Contains(err.Error(), "--max-roles")) {
			t.Errorf("%v: %v", c, err)
		}
	}
	close(m.jobs["a"].done)
	if err := admitRoles(m, job("eve", 7, 1), credential.Submitter); err != nil {
		t.Errorf("after the end of the other job: %v", err)
	}
}
