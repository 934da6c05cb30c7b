package edlcmd

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/etcdtest"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// secret is the password of the user "edl" of a test's etcd.
const secret = "swordfish-8c1f"

// secured starts a real etcd server that asks for certificates, a user and a password, and returns the flags for it.
func secured(t *testing.T) []string {
	t.Helper()
	files := etcdtest.Certify(t)
	servers := etcdtest.Start(t, 1, etcdtest.Options{TLS: files})
	client := servers.Client()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, do := range []func() error{
		func() error { _, err := client.UserAdd(ctx, "root", "root"); return err },
		func() error { _, err := client.UserGrantRole(ctx, "root", "root"); return err },
		func() error { _, err := client.RoleAdd(ctx, "jobs"); return err },
		func() error {
			_, err := client.RoleGrantPermission(ctx, "jobs", "/edl/", clientv3.GetPrefixRangeEnd("/edl/"), clientv3.PermissionType(clientv3.PermReadWrite))
			return err
		},
		func() error { _, err := client.UserAdd(ctx, "edl", secret); return err },
		func() error { _, err := client.UserGrantRole(ctx, "edl", "jobs"); return err },
		func() error { _, err := client.AuthEnable(ctx); return err },
	} {
		if err := do(); err != nil {
			t.Fatal(err)
		}
	}
	return []string{"--etcd", strings.Join(servers.Endpoints(), ","), "--etcd-ca", files.CA, "--etcd-cert", files.ClientCertificate,
		"--etcd-key", files.ClientKey, "--etcd-user", "edl"}
}

// A job runs over an etcd cluster that asks who comes, and the password is seen nowhere.
func TestJobOverSecuredEtcd(t *testing.T) {
	etcd := secured(t)
	edl := edlFile(t)
	env := append(os.Environ(), "XDG_RUNTIME_DIR="+t.TempDir(), "TMPDIR="+t.TempDir(), "EDL_ETCD_PASSWORD="+secret)
	command := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), edl, args...)
		cmd.Env = env
		return cmd
	}
	var said bytes.Buffer
	run := command(append(append(endless(t), "--remote"), etcd...)...)
	run.Stderr = &said
	if line := firstLine(t, run); !strings.HasPrefix(line, "pass 0  step 0") {
		t.Fatalf("first line %q, %s", line, &said)
	}
	shows := func(name string, b []byte) {
		t.Helper()
		if len(b) == 0 {
			t.Errorf("%s shows nothing", name)
		}
		if bytes.Contains(b, []byte(secret)) {
			t.Errorf("%s shows the password", name)
		}
	}
	for _, args := range [][]string{{"jobs", "show", "--output", "json"}, {"jobs", "show"}, {"logs"}, {"why", "--output", "json"}} {
		b, err := command(args...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", args, b)
		}
		shows(strings.Join(args, " "), b)
	}
	snapshot := filepath.Join(t.TempDir(), "snapshot")
	if b, err := command("jobs", "show", "--snapshot", snapshot).CombinedOutput(); err != nil {
		t.Fatalf("%s", b)
	}
	b, err := os.ReadFile(snapshot)
	if err != nil {
		t.Fatal(err)
	}
	shows("the snapshot", b)
	if b, err = exec.Command("ps", "-A", "-o", "args").Output(); err != nil {
		t.Logf("no ps: %v", err)
	} else {
		shows("ps", b)
		if !bytes.Contains(b, []byte("--etcd-user edl")) {
			t.Error("ps does not show the run")
		}
	}
	if err := run.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if code := exitCode(t, run); code != 130 {
		t.Errorf("ended with %d: %s", code, &said)
	}
	shows("the run", said.Bytes())
}

// Who is not let in is told so soon, in one line that does not show the password.
func TestWrongPasswordOfEtcd(t *testing.T) {
	etcd := secured(t)
	edl := edlFile(t)
	args := endless(t)
	for name, c := range map[string]struct{ password, says string }{
		"a wrong password": {"guessed", "password"},
		"no password":      {"", "EDL_ETCD_PASSWORD"},
	} {
		for _, command := range [][]string{append(append([]string{}, args...), "--remote"), {"listen", "--addr", "127.0.0.1:0"}} {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			cmd := exec.CommandContext(ctx, edl, append(command, etcd...)...)
			cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+t.TempDir(), "EDL_ETCD_PASSWORD="+c.password)
			var said bytes.Buffer
			cmd.Stderr = &said
			_ = cmd.Run()
			cancel()
			text := jobLine.ReplaceAllString(said.String(), "")
			if code := cmd.ProcessState.ExitCode(); code != 2 ||
				!strings.Contains(text, c.says) || strings.Count(text, "\n") != 1 || strings.Contains(text, "guessed") {
				t.Errorf("%s, edl %s: ended with %d: %s", name, command[0], code, text)
			}
		}
	}
}

// Who does not answer is named, with what to do; other errors stay as they are.
func TestUnanswered(t *testing.T) {
	endpoints := []string{"http://a:1", "http://b:2"}
	late := errors.New("context deadline exceeded")
	for _, c := range []struct {
		endpoints []string
		err       *fault.Fault
		want      string
	}{
		{endpoints, fault.E(fault.Unavailable, fault.At("etcd"), fault.Cause(late)),
			"etcd at http://a:1, http://b:2: context deadline exceeded; start an etcd server there, or name others with --etcd"},
		{endpoints, fault.E(fault.DeadlineExceeded, fault.At("etcd at http://a:1"), fault.Cause(late)),
			"etcd at http://a:1: context deadline exceeded; start an etcd server there, or name others with --etcd"},
		{nil, fault.E(fault.Unavailable, fault.At("listener a:1"), fault.Cause(late)),
			`listener a:1: context deadline exceeded; start one there with "edl listen", or name the address of another`},
		{nil, fault.E(fault.Unavailable, fault.At("etcd"), fault.Cause(late)), "etcd: context deadline exceeded"},
		{endpoints, fault.E(fault.Unavailable, fault.At("etcd"), fault.Cause(late),
			fault.Hint("look at it")), "etcd: context deadline exceeded; look at it"},
		{endpoints, fault.E(fault.InvalidArgument, fault.At("etcd"), fault.Got("no endpoint")), "etcd: invalid argument: got no endpoint"},
	} {
		got := unanswered(c.endpoints, c.err)
		if got.Error() != c.want || !errors.Is(got, c.err.Kind) {
			t.Errorf("%v: %v, want %s", c.err, got, c.want)
		}
	}
	if unanswered(endpoints, nil) != nil || fellSilent(nil) != nil {
		t.Error("an error where there was none")
	}
}

// What may have become of a listener that fell silent is told of it alone.
func TestFellSilent(t *testing.T) {
	gone := errors.New("EOF")
	for _, c := range []struct {
		err  *fault.Fault
		says bool
	}{
		{fault.E(fault.Unavailable, fault.At("listener a:1"), fault.Cause(gone)), true},
		{fault.E(fault.Unavailable, fault.At("listener a:1"), fault.Cause(gone), fault.Hint("look at it")), false},
		{fault.E(fault.Unavailable, fault.At("pserver 1"), fault.Cause(gone)), false},
		{fault.E(fault.NotFound, fault.At("listener a:1"), fault.Got("no job")), false},
	} {
		got := fellSilent(c.err)
		if says := strings.HasSuffix(got.Error(), "out of reach"); says != c.says || !errors.Is(got, c.err.Kind) {
			t.Errorf("%v: %v", c.err, got)
		}
	}
}
