package policy

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
)

func TestWhatLiesInAPlace(t *testing.T) {
	p := &Policy{Read: Places{List: []string{"/data", "s3://b/team?region=x", "gs://c"}}, Write: Places{List: []string{"/models"}}, Own: []string{"/own/job"}}
	for name, want := range map[string][2]bool{ // read, write
		"/data": {true, false}, "/data/train-*": {true, false}, "/data/a/../b": {false, false}, "/data/../etc/passwd": {false, false}, "/database/x": {false, false},
		"data/x": {false, false}, "/da*/x": {false, false}, "/*/x": {false, false}, "/data/*/../../etc/passwd": {false, false}, "": {false, false},
		"/models/m": {true, true}, "/own/job/c": {true, true}, "/own/jobs": {false, false}, "/data/x\x00y": {false, false},
		"s3://b/team/x-*?region=x": {true, false}, "s3://b/team?region=x": {true, false}, "s3://b/team/x": {false, false}, "s3://b/teams/x?region=x": {false, false},
		"s3://b/team/x?region=x&endpoint=http://127.0.0.1:1": {false, false}, "s3://b/team/../x?region=x": {false, false}, "s3://u@b/team/x?region=x": {false, false},
		"gs://c/any": {true, false}, "gs://d/any": {false, false}, "file:///data/x": {false, false}, "mem://b/x": {false, false}, "s3://[/x": {false, false},
	} {
		if got := [2]bool{p.CheckRead(name) == nil, p.CheckWrite(name) == nil}; got != want {
			t.Errorf("%q: may be read and written: %v, want %v", name, got, want)
		}
		if err := p.CheckWrite(name); err != nil && (!errors.Is(err, fault.Denied) || !strings.Contains(err.Error(), WriteFlag) || !strings.Contains(err.Error(), fault.Quote(name))) {
			t.Errorf("%q: %v", name, err)
		}
		var all *Policy
		if all.CheckRead(name) != nil || all.CheckWrite(name) != nil {
			t.Errorf("%q is refused without a policy", name)
		}
	}
	if err := p.CheckRead("/etc/passwd"); err == nil || !strings.Contains(err.Error(), "/data or /models") || !strings.Contains(err.Error(), ReadFlag) {
		t.Errorf("the refusal says %v", err)
	}
}

func TestPlacesAreNamedPlainly(t *testing.T) {
	for _, bad := range []string{"", "/data/*", "file:///x", "s3://u:p@b/x", "s3://b#x", "s3://[/x"} {
		if p, err := ParsePlaces(ReadFlag, []string{bad}); !errors.Is(err, fault.InvalidArgument) {
			t.Errorf("%q is %v, %v", bad, p, err)
		} else if n := strings.Count(err.Error(), " want "); n != 1 || !strings.HasPrefix(err.Error(), ReadFlag) {
			t.Errorf("%q is refused with %v", bad, err)
		}
	}
	p, err := ParsePlaces(ReadFlag, []string{"/a/../b/", "s3://b/f"})
	if err != nil || !slices.Equal(p.List, []string{"/b", "s3://b/f"}) {
		t.Errorf("%v, %v", p, err)
	}
}

// tree makes folders in and out of a policy, with links from one into the other.
func tree(t *testing.T) (p *Policy, in, out string) {
	t.Helper()
	top := t.TempDir()
	in, out = filepath.Join(top, "in"), filepath.Join(top, "out")
	for _, err := range []error{
		os.MkdirAll(filepath.Join(in, "a"), 0o755), os.MkdirAll(out, 0o755),
		os.WriteFile(filepath.Join(in, "a", "x"), []byte("inside"), 0o600), os.WriteFile(filepath.Join(out, "x"), []byte("outside"), 0o600),
		os.Symlink(out, filepath.Join(in, "far")), os.Symlink("../out/x", filepath.Join(in, "x")), os.Symlink("a", filepath.Join(in, "near")),
		os.Symlink(".", filepath.Join(in, "loop1")), os.Symlink(".", filepath.Join(in, "loop2")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return &Policy{Read: Places{List: []string{in}}, Write: Places{List: []string{in}}}, in, out
}

// No link leads out of a place: not the last part of a path, and not one before.
func TestNoLinkLeadsOut(t *testing.T) {
	p, in, out := tree(t)
	for path, want := range map[string]string{"a/x": "inside", "near/x": "inside", "far/x": "", "x": "", "loop1/loop2/a/x": "inside", "loop1/far/x": ""} {
		path = filepath.Join(in, path)
		var got []byte
		f, _, err := p.Open(fault.Unavailable, path)
		if err == nil {
			got, err = io.ReadAll(f)
			f.Close()
		}
		if string(got) != want || (err == nil) != (want != "") || err != nil && !errors.Is(err, fault.Denied) {
			t.Errorf("%s has %q, %v", path, got, err)
		}
		if _, err := p.Stat(path); (err == nil) != (want != "") {
			t.Errorf("%s: %v", path, err)
		}
	}
	for _, dir := range []string{filepath.Join(in, "far"), filepath.Join(in, "far", "new"), out, filepath.Join(in, "..", "out")} {
		for name, open := range map[string]func(string) (*os.Root, error){"OpenRoot": p.OpenRoot, "WriteRoot": p.WriteRoot, "MakeRoot": p.MakeRoot} {
			if root, err := open(dir); !errors.Is(fault.File(fault.Unavailable, dir, err), fault.Denied) {
				t.Errorf("%s of %s is %v, %v", name, dir, root, err)
			}
		}
		if _, err := p.ReadDir(dir); err == nil {
			t.Errorf("%s is listed", dir)
		}
	}
	if left, err := os.ReadDir(out); err != nil || len(left) != 1 {
		t.Errorf("outside there are %v, %v", left, err)
	}
	root, err := p.MakeRoot(filepath.Join(in, "new", "deep"))
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if info, err := os.Stat(filepath.Join(in, "new")); err != nil || info.Mode().Perm()&0o027 != 0 {
		t.Errorf("a folder of mode %v, %v", info.Mode(), err)
	}
}

// What is guarded stays closed, whatever the policy allows: by its name, behind links and "..", and as a folder in which it lies where names below are those of variables.
func TestNothingOpensWhatIsGuarded(t *testing.T) {
	p, in, _ := tree(t)
	keeps, secret := filepath.Join(in, "edl"), filepath.Join(in, "keys", "authority.pem")
	own, theirs := filepath.Join(keeps, "jobs", "mine"), filepath.Join(keeps, "jobs", "theirs")
	for _, err := range []error{
		os.MkdirAll(own, 0o755), os.MkdirAll(theirs, 0o755), os.Mkdir(filepath.Dir(secret), 0o755), os.WriteFile(secret, []byte("secret"), 0o600),
		os.WriteFile(filepath.Join(keeps, "audit.jsonl"), []byte("secret"), 0o600), os.WriteFile(filepath.Join(own, "x"), []byte("mine"), 0o600),
		os.Symlink("edl", filepath.Join(in, "linked")), os.Symlink("edl/jobs/new", filepath.Join(in, "dangling")), os.Symlink("keys/authority.pem", filepath.Join(in, "key")),
		os.Symlink("../theirs", filepath.Join(own, "other")), os.Symlink(".", filepath.Join(in, "same")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	denied := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, fault.Denied) || !strings.Contains(err.Error(), "the listener itself keeps") || !strings.Contains(err.Error(), in) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for name, p := range map[string]*Policy{"some": p.Guard(keeps, secret, "").Also(own), "all": (*Policy)(nil).Guard(keeps, secret).Also(own)} {
		all := name == "all"
		for _, file := range []string{"edl/audit.jsonl", "linked/audit.jsonl", "keys/authority.pem", "key", "same/edl/audit.jsonl", "same/key"} {
			path := filepath.Join(in, file)
			_, _, err := p.Open(fault.Unavailable, path)
			denied(name+": Open of "+file, err)
			_, err = p.Stat(path)
			denied(name+": Stat of "+file, err)
			denied(name+": CheckRead of "+file, p.CheckRead(path))
			denied(name+": CheckWrite of "+file, p.CheckWrite(path))
		}
		for _, dir := range []string{"edl", "edl/jobs", "edl/jobs/theirs", "edl/jobs/new/deep", "linked", "linked/jobs/new", "dangling", "dangling/deep", "edl/jobs/mine/other"} {
			path := filepath.Join(in, dir)
			denied(name+": CheckRead of "+dir, p.CheckRead(path))
			denied(name+": CheckRead in "+dir, p.CheckRead(path+"/a*/*"))
			_, err := p.Glob(path + "/*")
			denied(name+": Glob in "+dir, err)
			_, err = p.ReadDir(path)
			denied(name+": ReadDir of "+dir, err)
		}
		for _, dir := range []string{"edl", "edl/jobs", "edl/jobs/theirs", "edl/jobs/new/deep", "linked/jobs/new", "dangling", "edl/jobs/mine/other", "", "same", "keys"} {
			path := filepath.Join(in, dir)
			denied(name+": CheckWrite of "+dir, p.CheckWrite(path))
			for what, open := range map[string]func(string) (*os.Root, error){"OpenRoot": p.OpenRoot, "WriteRoot": p.WriteRoot, "MakeRoot": p.MakeRoot} {
				_, err := open(path)
				denied(name+": "+what+" of "+dir, err)
			}
		}
		if all {
			denied("a URL", p.CheckRead("file://"+keeps+"/*"))
			denied("behind ..", p.CheckWrite(in+"/new/../edl/jobs"))
			denied("above a link", p.CheckWrite(own+"/other/../theirs/new"))
		}
		f, _, err := p.Open(fault.Unavailable, filepath.Join(own, "x"))
		if err != nil {
			t.Fatalf("%s: its own file: %v", name, err)
		}
		f.Close()
		for _, dir := range []string{filepath.Join(own, "deep"), filepath.Join(in, "models")} {
			root, err := p.MakeRoot(dir)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			root.Close()
		}
		root, err := p.OpenFolder(in)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		root.Close()
		if err := errors.Join(p.CheckRead(filepath.Join(in, "*", "x")), p.CheckRead(in), p.CheckRead("mem://edl")); all && err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Lstat(filepath.Join(keeps, "jobs", "new")); err == nil {
		t.Error("a folder was made in what is guarded")
	}
	if (*Policy)(nil).Guard("") != nil {
		t.Error("a policy without bounds is one")
	}
}

func TestGlob(t *testing.T) {
	p, in, _ := tree(t)
	for pattern, want := range map[string][]string{"*/x": {"a/x", "loop1/x", "loop2/x", "near/x"}, "far/*": nil, "a/[": nil, "a/x": {"a/x"}} {
		got, err := p.Glob(filepath.Join(in, pattern))
		for i := range got {
			got[i], _ = filepath.Rel(in, got[i])
		}
		if pattern == "*/x" { // the link x in a loop is there, but leads out when it is opened
			got = slices.DeleteFunc(got, func(n string) bool { return strings.HasPrefix(n, "far") })
		}
		if !slices.Equal(got, want) || (err != nil) != (pattern == "a/[") {
			t.Errorf("%s matches %v, %v", pattern, got, err)
		}
	}
	if got, err := p.Glob("/*"); !errors.Is(err, fault.Denied) {
		t.Errorf("a pattern of another folder matches %v, %v", got, err)
	}
}

// Links to the folder that they lie in are many ways to the same files: 20 are 400 in two steps.
func TestGlobIsBounded(t *testing.T) {
	p, in, _ := tree(t)
	for i := range 20 {
		if err := os.Symlink(".", filepath.Join(in, "ring-"+strconv.Itoa(i))); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := p.glob(filepath.Join(in, "ring-*/ring-*/ring-*/ring-*/*"), 1000); !errors.Is(err, fault.TooLarge) {
		t.Errorf("%d names, %v", len(got), err)
	}
}

func TestPolicyTravelsWithTheContext(t *testing.T) {
	p := (&Policy{}).Also("/own", "")
	ctx := context.WithoutCancel(With(t.Context(), p))
	if From(ctx) != p || From(t.Context()) != nil || len(p.Own) != 1 || (*Policy)(nil).Also("/x") != nil {
		t.Errorf("%v, %v", From(ctx), p)
	}
}
