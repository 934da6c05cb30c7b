package edlcmd

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/wire"
)

// handovers is how many jobs lose their listeners, and the first seed of the moments.
var (
	handovers    = flag.Int("handovers", 0, "jobs whose listeners are killed; 0: as many as show each way of going on once")
	handoverSeed = flag.Uint64("handovers.seed", 1, "seed of the first of them")
)

// A listener that is killed, or terminated, at any moment costs no job: the next one, which waits for that or comes later, goes on with it, the client is told each step once, and the model has the bits
// of a run whose listener has lived.
func TestListenerIsKilled(t *testing.T) {
	edl := edlFile(t)
	for i := range max(1, *handovers) {
		seed := *handoverSeed + uint64(i)
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { loseListeners(t, edl, seed) })
	}
}

// Steps of each file of a job that loses its listeners. It has as many files as listeners, and gets each file from the next listener on, so that it cannot end
// before the last one.
const (
	stepsOfFile = 40
	filesOfJob  = 3
	stepsOfJob  = stepsOfFile * filesOfJob
)

func loseListeners(t *testing.T, edl string, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 0))
	dir, scratch := t.TempDir(), t.TempDir()
	address, err := freeAddress()
	if err != nil {
		t.Fatal(err)
	}
	authority := filepath.Join(t.TempDir(), "authority.pem")
	env := append(os.Environ(), "XDG_RUNTIME_DIR="+t.TempDir(), "EDL_AUTHORITY="+authority, "TMPDIR="+scratch) // roles get the last one, too
	folder := filepath.Join(dir, "kept")
	t.Cleanup(func() { dismissKeeper(t, folder) })
	growingJob(t, dir)
	command := func(args ...string) (*exec.Cmd, *bytes.Buffer) {
		said := &bytes.Buffer{}
		cmd := exec.CommandContext(t.Context(), edl, args...)
		cmd.Dir, cmd.Env, cmd.Stderr = dir, env, said
		return cmd, said
	}
	listen := func(more ...string) (cmd *exec.Cmd, said *bytes.Buffer, ready func()) {
		cmd, said = command(append([]string{"listen", "--addr", address, "--data-dir", folder}, more...)...)
		first := startForLine(t, cmd)
		return cmd, said, func() {
			if line := first(); line != "listening on "+address {
				t.Fatalf("the listener says %q, %s", line, said)
			}
		}
	}
	flags := []string{"--trainers", "2", "--pservers", "2", "--every", "1"}
	if seed%2 == 1 {
		flags = append(flags, "--standby", "1")
	}
	train := func(data, model string, more ...string) (*exec.Cmd, *bytes.Buffer) {
		return command(append(append([]string{"run", "program.pb", "--data", "train=" + data + "/train-*", "--save", model}, flags...), more...)...)
	}
	listener, listenerSaid, ready := listen()
	ready()
	run, runSaid := train("grows", "model", "--follow", "train", "--remote="+address)
	steps := newToldSteps()
	run.Stdout = steps
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	for file := range filesOfJob {
		addFile(t, dir, file)
		steps.await(t, file*stepsOfFile+1+random.IntN(stepsOfFile-1), runSaid)
		if file == filesOfJob-1 {
			break
		}
		if file == 0 {
			checkSecrets(t, authority, env, dir, scratch)
		}
		next, nextSaid := (*exec.Cmd)(nil), (*bytes.Buffer)(nil)
		if seed%2 == 1 { // it waits for the end of the last one
			next, nextSaid, ready = listen("--wait")
		}
		signal := []os.Signal{os.Kill, syscall.SIGTERM}[random.IntN(4)/3]
		if err := listener.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		_ = listener.Wait()
		if next == nil {
			next, nextSaid, ready = listen()
		}
		ready()
		listener, listenerSaid = next, nextSaid
	}
	if err := os.WriteFile(filepath.Join(dir, "grows", "_END"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if code := exitCode(t, run); code != 0 {
		t.Fatalf("the run has ended with %d: %s\nthe listener said: %s", code, runSaid, listenerSaid)
	}
	if n := strings.Count(runSaid.String(), "is there again"); n != filesOfJob-1 {
		t.Errorf("the run says %d times that its listener is there again, want %d: %s", n, filesOfJob-1, runSaid)
	}
	steps.check(t)
	if err := listener.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if code := exitCode(t, listener); code != 130 {
		t.Errorf("the last listener has ended with %d: %s", code, listenerSaid)
	}
	if !strings.Contains(listenerSaid.String(), "the job goes on with this listener") {
		t.Errorf("the last listener does not say that it has taken the job over: %s", listenerSaid)
	}
	if left, err := os.ReadDir(scratch); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}

	reference, said := train("all", "reference", "--remote")
	if err := reference.Run(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	sameFiles(t, filepath.Join(dir, "model"), filepath.Join(dir, "reference"))
}

// checkSecrets looks for private keys, that of the authority and any other, where they must not be: in the command lines and environments of all processes with the
// last variable of the environment of the test, and in files below some folders.
func checkSecrets(t *testing.T, authority string, env []string, folders ...string) {
	t.Helper()
	text, err := os.ReadFile(authority)
	if err != nil {
		t.Fatal(err)
	}
	secrets := [][]byte{[]byte("PRIVATE KEY")}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "PRIVATE KEY" {
			secrets = append(secrets, block.Bytes, []byte(base64.StdEncoding.EncodeToString(block.Bytes)[:40]))
		}
	}
	if len(secrets) == 1 {
		t.Fatalf("%s has no key", authority)
	}
	check := func(where string) {
		b, err := os.ReadFile(where)
		if err != nil { // a process that has ended, or a file of one
			return
		}
		for _, secret := range secrets {
			if bytes.Contains(b, secret) {
				t.Errorf("%s has a private key", where)
			}
		}
	}
	processes := 0
	all, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range all {
		b, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(b, []byte(env[len(env)-1])) {
			continue
		}
		processes++
		check(file)
		check(filepath.Join(filepath.Dir(file), "cmdline"))
	}
	if processes < 7 { // listener, keeper, client, coordinator, trainers, pservers: some may be starting
		t.Errorf("%d processes were looked at", processes)
	}
	for _, folder := range folders {
		_ = filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return nil
			}
			if filepath.Base(filepath.Dir(path)) == "etcd-keys" { // of the keeper's etcd, which reads its key from a file
				if info, err := d.Info(); err == nil && info.Mode().Perm() != 0o600 {
					t.Errorf("%s has mode %v", path, info.Mode().Perm())
				}
				return nil
			}
			check(path)
			return nil
		})
	}
}

// growingJob writes a program, the folder "all" with its data, and an empty folder "grows".
func growingJob(t *testing.T, dir string) {
	t.Helper()
	m := layers.NewModel().Seed(1)
	table := layers.OpenDataset(m, "train", layers.Field("x", layers.Dims(2)), layers.Field("y", layers.Dims(1)))
	batch := layers.Read(layers.Batch(table, 4))
	optimizer.Momentum(0.01, 0.9).Minimize(layers.Mean(layers.SquareErrorCost(layers.FC(layers.FC(batch[0], 8), 1), batch[1])))
	p, err := m.Program()
	if err == nil {
		err = p.Save(filepath.Join(dir, "program.pb"))
	}
	if err == nil {
		err = os.Mkdir(filepath.Join(dir, "grows"), 0o777)
	}
	if err != nil {
		t.Fatal(err)
	}
	for file := range filesOfJob {
		var rows strings.Builder
		for i := range 4 * stepsOfFile {
			fmt.Fprintf(&rows, "%d,%d,%d\n", i%3, (i+file)%5, i%7)
		}
		table, made := filepath.Join(dir, "table.csv"), filepath.Join(dir, "made")
		if err := os.WriteFile(table, []byte(rows.String()), 0o666); err != nil {
			t.Fatal(err)
		}
		var said strings.Builder
		if code := run(t.Context(), []string{"data", "csv", table, "-o", made, "--no-header", "--label-type", "float32"}, strings.NewReader(""), io.Discard, &said); code != 0 {
			t.Fatal(said.String())
		}
		if err := os.MkdirAll(filepath.Join(dir, "all"), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(made, "train-00000-of-00001"), filepath.Join(dir, "all", fmt.Sprint("train-", file))); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(made); err != nil {
			t.Fatal(err)
		}
	}
}

// addFile makes a file of a dataset that grows appear, whole.
func addFile(t *testing.T, dir string, file int) {
	t.Helper()
	name := fmt.Sprint("train-", file)
	if err := os.Link(filepath.Join(dir, "all", name), filepath.Join(dir, "grows", name)); err != nil {
		t.Fatal(err)
	}
}

// toldSteps takes what a run prints, and knows the steps.
type toldSteps struct {
	rest  []byte
	steps []int
	at    chan int // gets the number of steps so far; has room for all
}

func newToldSteps() *toldSteps { return &toldSteps{at: make(chan int, 10*stepsOfJob)} }

var stepLine = regexp.MustCompile(`^pass \d+  step (\d+) `)

func (s *toldSteps) Write(b []byte) (int, error) {
	s.rest = append(s.rest, b...)
	for {
		line, rest, ok := bytes.Cut(s.rest, []byte("\n"))
		if !ok {
			return len(b), nil
		}
		s.rest = rest
		if found := stepLine.FindSubmatch(line); found != nil {
			n, _ := strconv.Atoi(string(found[1]))
			s.steps = append(s.steps, n)
			s.at <- len(s.steps)
		}
	}
}

// await waits until so many steps were told.
func (s *toldSteps) await(t *testing.T, steps int, said fmt.Stringer) {
	t.Helper()
	limit := time.After(patience)
	for n := 0; n < steps; {
		select {
		case n = <-s.at:
		case <-limit:
			t.Fatalf("%d steps were told, want %d: %s", n, steps, said)
		}
	}
}

// check reports steps that were not told once, in order. The run has ended.
func (s *toldSteps) check(t *testing.T) {
	t.Helper()
	next := 0
	for i, n := range s.steps {
		if n != next {
			t.Errorf("step %d follows %v", n, s.steps[:i])
			return
		}
		next = n + 1
	}
	if next != stepsOfJob {
		t.Errorf("%d steps were told, want %d", next, stepsOfJob)
	}
}

// sameFiles compares two folders.
func sameFiles(t *testing.T, a, b string) {
	t.Helper()
	files := func(dir string) map[string]string {
		content := map[string]string{}
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			text, err := os.ReadFile(path)
			name, _ := filepath.Rel(dir, path)
			content[name] = string(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return content
	}
	have, want := files(a), files(b)
	if len(want) == 0 {
		t.Fatalf("no files in %s", b)
	}
	for name, content := range want {
		if have[name] != content {
			t.Errorf("%s differs", name)
		}
	}
	for name := range have {
		if _, ok := want[name]; !ok {
			t.Errorf("%s is there, too", name)
		}
	}
}

// dismissKeeper ends the keeper of a data folder that a test has left, which one that passes does not.
func dismissKeeper(t *testing.T, folder string) {
	socket, err := os.ReadFile(filepath.Join(folder, "keeper"))
	if err != nil {
		return
	}
	conn, err := wire.Dial("unix:"+string(socket), nil)
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, err = rpc.NewKeeperClient(conn).Dismiss(ctx, &rpc.DismissRequest{})
	t.Log("the keeper was left, and is dismissed:", err)
}
