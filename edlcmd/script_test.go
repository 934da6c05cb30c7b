package edlcmd

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/view"
	"github.com/edl-go/edl/tensor"
	"github.com/rogpeppe/go-internal/testscript"
	"google.golang.org/protobuf/encoding/protojson"
)

// TestMain makes the test binary be edl when a script, or edl itself, starts it under that name.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"edl": func() { os.Exit(Main()) }, "otheredl": func() {
		// a build with one op more
		ops.Register(ops.Def{Type: "otheredl_op", Class: ops.Read, Doc: "Read nothing.", Infer: func(*ops.Shapes) error { return nil }})
		os.Exit(Main())
	}})
}

// TestScripts runs the command as users do. "go test -update" writes what it prints into the scripts.
func TestScripts(t *testing.T) { runScripts(t, "testdata/script") }

// runScripts runs the scripts of a folder, and files.
func runScripts(t *testing.T, dir string, files ...string) {
	testscript.Run(t, testscript.Params{
		Dir:           dir,
		Files:         files,
		UpdateScripts: os.Getenv("UPDATE_SCRIPTS") != "",
		Setup: func(e *testscript.Env) error {
			e.Setenv("EDL_TESTDATA", os.Getenv("EDL_TESTDATA"))
			e.Setenv("XDG_RUNTIME_DIR", filepath.Join(e.WorkDir, "runtime")) // where listeners are listed: a script sees its own
			e.Setenv("XDG_STATE_HOME", filepath.Join(e.WorkDir, "state"))
			return nil
		},
		Condition: func(name string) (bool, error) {
			if name == "testdata" {
				return os.Getenv("EDL_TESTDATA") != "", nil
			}
			return false, fmt.Errorf("unknown condition %s", name)
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits":   exits,
			"program": writeProgram,
			"untimed": untimed,
			"spoil":   spoil,
			"oneline": oneline,
			"address": address,
			"waitjob": waitJob,
			"until":   until,
			"pid":     pid,
			"signal":  sendSignal,
			"gone":    gone,
			"table":   table,
			"damage":  damage,
			"ask":     ask,

			"collector": startCollector,
			"spans":     spans,
		},
	})
}

// exits runs a command that must end with an exit code: exits 2 edl show nothing.
func exits(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	code := 0
	var ended *exec.ExitError
	if errors.As(err, &ended) {
		code = ended.ExitCode()
	} else {
		ts.Check(err)
	}
	if code != want {
		ts.Fatalf("exit code %d, want %d\n%s", code, want, ts.ReadFile("stderr"))
	}
}

// jobLine is what a run on a cluster says of its job.
var jobLine = regexp.MustCompile(`^job [a-z0-9-]+ on the listener at 127\.0\.0\.1:[0-9]+\n`)

// oneline checks that the last command wrote one line to standard error, beside the name of its job, which begins as a diagnostic of edl does.
func oneline(ts *testscript.TestScript, _ bool, _ []string) {
	text := jobLine.ReplaceAllString(ts.ReadFile("stderr"), "")
	if !strings.HasPrefix(text, "edl: ") || strings.Count(text, "\n") != 1 {
		ts.Fatalf("standard error is not one line of edl:\n%s", text)
	}
	if strings.Contains(text, "internal error") {
		ts.Fatalf("a bad input is called a bug of edl:\n%s", text)
	}
}

// address puts a free loopback address into a variable: address NAME.
func address(ts *testscript.TestScript, _ bool, args []string) {
	free, err := freeAddress()
	ts.Check(err)
	ts.Setenv(args[0], free)
}

// freeAddress returns a free loopback address. Its port is below those that systems give to whoever asks for any port, so nobody else has it when it is used.
func freeAddress() (string, error) {
	for range 100 {
		if l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", 12000+rand.IntN(20000))); err == nil {
			return l.Addr().String(), l.Close()
		}
	}
	return "", errors.New("no free port")
}

// writeProgram writes a small program of the DSL: program line FILE. All numbers of its first steps on small whole numbers are exact in
// float32, so that outputs can be compared to the letter.
func writeProgram(ts *testscript.TestScript, _ bool, args []string) {
	m := layers.NewModel()
	zero := layers.Constant(0)
	network := func(x layers.Variable) layers.Variable {
		return layers.FC(x, 1, layers.Param(layers.ParamAttr{Initializer: zero}), layers.Bias(layers.ParamAttr{Initializer: zero}),
			layers.Name("prediction"))
	}
	read := func(data string, label ...layers.Option) []layers.Variable {
		table := layers.OpenDataset(m, data, layers.Field("x", layers.Dims(2)), layers.Field("y", append(label, layers.Dims(1))...))
		return layers.Read(layers.Batch(table, 4))
	}
	loss := func(data string) layers.Variable {
		batch := read(data)
		return layers.Mean(layers.SquareErrorCost(network(batch[0]), batch[1]), layers.Name("loss"))
	}
	switch args[0] {
	case "line":
		optimizer.SGD(0.25).Minimize(loss("train"))
	case "test":
		loss("test")
	case "slow": // line with another learning rate
		optimizer.SGD(0.0625).Minimize(loss("train"))
	case "adam": // line with an optimizer that remembers
		optimizer.Adam(0.25).Minimize(loss("train"))
	case "clone": // line for test
		optimizer.SGD(0.25).Minimize(loss("train"))
	case "fed":
		x, y := layers.Data(m, "x", layers.Dims(2)), layers.Data(m, "y", layers.Dims(1))
		optimizer.SGD(0.25).Minimize(layers.Mean(layers.SquareErrorCost(network(x), y), layers.Name("loss")))
	case "scheduled": // every step depends on what was before it: order of records, schedule, velocity, what dropout leaves
		table := layers.OpenDataset(m, "train", layers.Field("x", layers.Dims(2)), layers.Field("y", layers.Dims(1)))
		batch := layers.Read(layers.DoubleBuffer(layers.Batch(layers.Shuffle(table, 5, 3), 3)))
		hidden := layers.Dropout(layers.FC(batch[0], 4, layers.Act("tanh")), 0.25)
		cost := layers.Mean(layers.SquareErrorCost(layers.FC(hidden, 1), batch[1]), layers.Name("loss"))
		optimizer.Momentum(optimizer.Exponential(0.1, 2, 0.5, false), 0.9).Minimize(cost)
	case "head": // line with one layer more
		batch := read("train")
		cost := layers.SquareErrorCost(layers.FC(network(batch[0]), 1, layers.Name("head")), batch[1])
		optimizer.SGD(0.25).Minimize(layers.Mean(cost, layers.Name("loss")))
	case "normed": // predicts by a product with a batch norm
		batch := read("train")
		hidden := layers.BatchNorm(layers.FC(batch[0], 4, layers.Name("hidden")), layers.Act("relu"))
		optimizer.SGD(0.25).Minimize(layers.Mean(layers.SquareErrorCost(network(hidden), batch[1]), layers.Name("loss")))
	case "other": // evaluates a layer that line does not have
		batch := read("train")
		layers.Mean(layers.SquareErrorCost(layers.FC(network(batch[0]), 1, layers.Name("head")), batch[1]), layers.Name("loss"))
	case "large": // takes more than a MiB
		batch := read("train")
		optimizer.SGD(0.25).Minimize(layers.Mean(layers.SquareErrorCost(layers.FC(layers.FC(batch[0], 1<<19), 1), batch[1]), layers.Name("loss")))
	case "diverging":
		optimizer.SGD(1e30).Minimize(loss("train"))
	case "infinite": // fetches values that are no numbers
		x := layers.Data(m, "x", layers.Dims(1))
		layers.Log(x, layers.Name("log"))
		layers.Cast(x, tensor.Int64, layers.Name("whole"))
	case "sequences": // fetches what keeps sequences, and what pools them
		x, clicks := layers.Data(m, "x", layers.Dims(2), layers.LoD(1)), layers.Data(m, "clicks", layers.Dims(1), layers.LoD(2), layers.DType(tensor.Int64))
		layers.Scale(x, 2, 0, layers.Name("doubled"))
		layers.SequencePool(x, "sum", layers.Name("pooled"))
		layers.Cast(clicks, tensor.Float32, layers.Name("numbers"))
	case "tables": // trains a table that grows, and a fixed one of bfloat16, at the label of a record
		batch := read("train", layers.DType(tensor.Int64))
		grown := layers.SparseEmbedding(batch[1], 640, 2, layers.Param(layers.ParamAttr{Name: "grown"}))
		fixed := layers.Embedding(batch[1], 32, 2, layers.Sparse(), layers.Distributed(), layers.StoreBFloat16(), layers.Param(layers.ParamAttr{Name: "fixed"}))
		cost := layers.SquareErrorCost(layers.Add(grown, fixed), batch[0])
		optimizer.Adagrad(0.1).Minimize(layers.Mean(cost, layers.Name("loss")))
	case "pairs": // trains a table that grows for each of two columns of keys
		key := []layers.Option{layers.Dims(1), layers.DType(tensor.Int64)}
		table := layers.OpenDataset(m, "train", layers.Field("age", layers.Dims(1)), layers.Field("user", key...), layers.Field("ad", key...),
			layers.Field("y", layers.Dims(1)))
		batch := layers.Read(layers.Batch(table, 2))
		users := layers.SparseEmbedding(batch[1], 640, 1, layers.Param(layers.ParamAttr{Name: "users"}))
		ads := layers.SparseEmbedding(batch[2], 640, 1, layers.Param(layers.ParamAttr{Name: "ads"}))
		cost := layers.SquareErrorCost(layers.Add(layers.Add(users, ads), batch[0]), batch[3])
		optimizer.SGD(0.1).Minimize(layers.Mean(cost, layers.Name("loss")))
	case "visits": // trains a table that grows, and forgets keys that were unseen for a day
		table := layers.OpenDataset(m, "train", layers.Field("age", layers.Dims(1)), layers.Field("user", layers.Dims(1), layers.DType(tensor.Int64)), layers.Field("y", layers.Dims(1)))
		batch := layers.Read(layers.Batch(table, 2))
		users := layers.SparseEmbedding(batch[1], 640, 1, layers.EvictUnseenDays(1), layers.Param(layers.ParamAttr{Name: "users"}))
		cost := layers.SquareErrorCost(layers.Add(users, batch[0]), batch[2])
		optimizer.SGD(0.1).Minimize(layers.Mean(cost, layers.Name("loss")))
	case "people": // looks up two categories, and has a number beside them
		code := []layers.Option{layers.Dims(1), layers.DType(tensor.Int64)}
		table := layers.OpenDataset(m, "train", layers.Field("numbers", layers.Dims(1)), layers.Field("city", code...), layers.Field("tags", code...), layers.Field("income", code...))
		batch := layers.Read(layers.Batch(table, 4))
		known := layers.Concat([]layers.Variable{batch[0], layers.Embedding(batch[1], 3, 2), layers.Embedding(batch[2], 3, 2)}, 1)
		cost, _ := layers.SoftmaxWithCrossEntropy(layers.FC(known, 2, layers.Name("score")), batch[3])
		optimizer.SGD(0.25).Minimize(layers.Mean(cost, layers.Name("loss")))
	case "lookup": // fetches rows of a table that grows
		key := layers.Data(m, "user", layers.Dims(1), layers.DType(tensor.Int64))
		layers.SparseEmbedding(key, 640, 2, layers.Name("vector"))
		layers.Assign(layers.Data(m, "class", layers.Dims(1), layers.DType(tensor.Int64)), layers.Name("same"))
	case "keys": // fetches what it is fed
		layers.Assign(layers.Data(m, "key", layers.Dims(1), layers.DType(tensor.Int64)), layers.Name("same"))
	default:
		ts.Fatalf("no program %s", args[0])
	}
	p, err := m.Program()
	ts.Check(err)
	if args[0] == "clone" {
		p = p.CloneForTest()
	}
	ts.Check(p.Save(ts.MkAbs(args[1])))
}

// patience bounds what scripts wait for; it ends soon unless something is broken.
const patience = time.Minute

// await repeats try until it succeeds. The script fails with the last error when it takes longer than patience.
func await(ts *testscript.TestScript, try func() error) {
	for deadline := time.Now().Add(patience); ; runtime.Gosched() {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("after %v: %v", patience, err)
		}
	}
}

// until repeats a command until it succeeds and its output matches: until PATTERN edl jobs.
func until(ts *testscript.TestScript, _ bool, args []string) {
	want, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	await(ts, func() error {
		if err := ts.Exec(args[1], args[2:]...); err != nil {
			return err
		}
		if !want.MatchString(ts.ReadFile("stdout")) {
			return fmt.Errorf("%v does not match %q", args[1:], args[0])
		}
		return nil
	})
}

// ask sends a request until the answer has a status and matches: ask 200 PATTERN URL, or ask 200 PATTERN URL FILE to post a file.
func ask(ts *testscript.TestScript, _ bool, args []string) {
	want, err := regexp.Compile(args[1])
	ts.Check(err)
	await(ts, func() error {
		var response *http.Response
		var err error
		if len(args) < 4 {
			response, err = http.Get(args[2])
		} else {
			response, err = http.Post(args[2], "application/json", strings.NewReader(ts.ReadFile(args[3])))
		}
		if err != nil {
			return err
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err == nil && (fmt.Sprint(response.StatusCode) != args[0] || !want.Match(body)) {
			err = fmt.Errorf("status %d, want %s and %q:\n%s", response.StatusCode, args[0], args[1], body)
		}
		return err
	})
}

// pid puts the process of a role into a variable, as soon as there is one: pid JOB ROLE NAME.
func pid(ts *testscript.TestScript, _ bool, args []string) {
	await(ts, func() error {
		if err := ts.Exec("edl", "jobs", "show", args[0], "--output", "json"); err != nil {
			return err
		}
		for _, r := range details(ts).Status.Roles {
			if view.RoleName(r.Role, r.Index) == args[1] && r.Pid != 0 {
				ts.Setenv(args[2], fmt.Sprint(r.Pid))
				return nil
			}
		}
		return fmt.Errorf("%s has no process", args[1])
	})
}

// details is what "edl jobs show --output json" has printed last.
func details(ts *testscript.TestScript) *rpc.JobDetails {
	var shown struct{ Job json.RawMessage }
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &shown))
	d := &rpc.JobDetails{}
	ts.Check(protojson.Unmarshal(shown.Job, d))
	return d
}

var signals = map[string]syscall.Signal{"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "KILL": syscall.SIGKILL, "STOP": syscall.SIGSTOP, "CONT": syscall.SIGCONT}

// sendSignal sends a signal to a process: signal KILL $PID, or signal KILL FILE, which has the number.
func sendSignal(ts *testscript.TestScript, _ bool, args []string) {
	s, ok := signals[args[0]]
	n, err := strconv.Atoi(args[1])
	if err != nil {
		n, err = strconv.Atoi(strings.TrimSpace(ts.ReadFile(args[1])))
	}
	ts.Check(err)
	if !ok || n <= 1 {
		ts.Fatalf("signal %v", args)
	}
	ts.Check(syscall.Kill(n, s))
}

// gone waits until a process has ended and its parent has heard of it: gone $PID.
func gone(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	await(ts, func() error {
		if syscall.Kill(n, 0) == nil {
			return fmt.Errorf("process %d goes on", n)
		}
		return nil
	})
}

// waitJob waits until a job of the listener at $ADDRESS is in a state, and puts its name into JOB.
func waitJob(ts *testscript.TestScript, _ bool, args []string) {
	var list struct {
		Jobs []jobRow `json:"jobs"`
	}
	await(ts, func() error {
		ts.Check(ts.Exec("edl", "jobs", "--listener", ts.Getenv("ADDRESS"), "--output", "json"))
		ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &list))
		for _, j := range list.Jobs {
			if j.State == args[0] {
				ts.Setenv("JOB", j.Job)
				return nil
			}
		}
		return fmt.Errorf("no job is %s: %v", args[0], list.Jobs)
	})
}

var (
	times    = regexp.MustCompile(`"seconds":[0-9.e-]+`)
	textRate = regexp.MustCompile(`seconds [0-9.]+  records/s [0-9]+`)
)

// untimed writes the last standard output to a file, with 0 for whatever depends on the clock.
func untimed(ts *testscript.TestScript, _ bool, args []string) {
	text := times.ReplaceAllString(ts.ReadFile("stdout"), `"seconds":0`)
	text = textRate.ReplaceAllString(text, "seconds 0  records/s 0")
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o666))
}

// spoil makes a file that no command can use: spoil empty|random|huge FILE, or spoil cut FILE SOURCE. A huge file is sparse.
func spoil(ts *testscript.TestScript, _ bool, args []string) {
	path := ts.MkAbs(args[1])
	switch args[0] {
	case "empty":
		ts.Check(os.WriteFile(path, nil, 0o666))
	case "random":
		noise, state := make([]byte, 5000), uint64(88172645463325252)
		for i := range noise {
			state ^= state << 13
			state ^= state >> 7
			state ^= state << 17
			noise[i] = byte(state >> 32)
		}
		ts.Check(os.WriteFile(path, noise, 0o666))
	case "huge":
		ts.Check(os.WriteFile(path, nil, 0o666))
		ts.Check(os.Truncate(path, 3<<30))
	case "cut":
		whole := ts.ReadFile(args[2])
		ts.Check(os.WriteFile(path, []byte(whole[:len(whole)*2/3]), 0o666))
	default:
		ts.Fatalf("spoil does not know %s", args[0])
	}
}

// table writes rows that the program "line" learns, all exact in float32: table ROWS FILE.
func table(ts *testscript.TestScript, _ bool, args []string) {
	rows, err := strconv.Atoi(args[0])
	ts.Check(err)
	var b strings.Builder
	b.WriteString("a,b,y\n")
	for i := range rows {
		x, y := i%3-1, i/3%3-1
		fmt.Fprintf(&b, "%d,%d,%d\n", x, y, 2*x+y)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(b.String()), 0o666))
}

// damage flips the bits of one byte of the first chunk of a record file, behind the header of the chunk.
func damage(ts *testscript.TestScript, _ bool, args []string) {
	b := []byte(ts.ReadFile(args[0]))
	b[100] ^= 0xff
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), b, 0o666))
}
