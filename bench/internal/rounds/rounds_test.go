package rounds

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote"
)

// This binary is the role and the copying server of its own tests.
const behaviourEnv = "EDL_BENCH_ROUNDS_TEST"

func TestMain(m *testing.M) {
	var err error
	switch os.Getenv(behaviourEnv) {
	case "role":
		err = remote.RunChild(context.Background(), os.Stdin, os.Stderr)
	case "copy":
		arguments := os.Args[len(os.Args)-3:]
		share, _ := strconv.Atoi(arguments[2])
		err = ServeCopy(arguments[0], arguments[1], share, os.Stdout)
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		_, _ = io.WriteString(os.Stderr, err.Error())
		os.Exit(1)
	}
}

func TestWindowsHoldWholeReports(t *testing.T) {
	w := NewWindows(time.Second)
	// Reports come every 50 ms with 5 steps at a time: 10 ms a step.
	var phases []Phase
	steps, now := 0, time.Duration(0)
	for last := Warming; last != Done; {
		if steps%5 == 0 && steps > 0 {
			now += 50 * time.Millisecond
		}
		steps++
		if last = w.Step(now); len(phases) == 0 || phases[len(phases)-1] != last {
			phases = append(phases, last)
		}
	}
	r := w.Result()
	if r.Median != 1e4 || r.Fastest != 1e4 || r.Windows != 5 || w.Steps() != 100 {
		t.Errorf("%+v of %d steps", r, w.Steps())
	}
	if want := []Phase{Warming, Beginning, Measuring, Done}; len(phases) != len(want) {
		t.Errorf("phases %v, want %v", phases, want)
	}
	if steps != 26+100 { // the first 250 ms are the warm-up
		t.Errorf("%d steps", steps)
	}
}

func TestWindowsOfLongSteps(t *testing.T) {
	w := NewWindows(time.Second)
	var now time.Duration
	for w.Step(now) != Done {
		now += 2 * time.Second
	}
	if r := w.Result(); r.Median != 2e6 || r.Windows != 3 || w.Steps() != 3 {
		t.Errorf("%+v of %d steps", r, w.Steps())
	}
}

// procfs writes a file system with these processes: pid, parent and ticks.
func procfs(t *testing.T, processes ...[3]int) string {
	t.Helper()
	dir := t.TempDir()
	for _, p := range processes {
		pid := strconv.Itoa(p[0])
		task := filepath.Join(dir, pid, "task", pid)
		if err := os.MkdirAll(task, 0o777); err != nil {
			t.Fatal(err)
		}
		for path, text := range map[string]string{
			filepath.Join(dir, pid, "stat"): pid + " (a) b (c) S " + strconv.Itoa(p[1]) + " 1 1 0 -1 4194304 121 0 0 0 " + strconv.Itoa(p[2]) +
				" 1 0 0 20 0 1 0 1316822 3133440",
			filepath.Join(dir, pid, "status"): "Name:\ta\nVmHWM:\t   20 kB\nVmRSS:\t   10 kB\nvoluntary_ctxt_switches:\t3\nnonvoluntary_ctxt_switches:\t4\n",
			filepath.Join(task, "status"):     "Name:\ta\nvoluntary_ctxt_switches:\t3\nnonvoluntary_ctxt_switches:\t4\n",
		} {
			if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir
}

func TestUsageIsThatOfAProcessAndItsDescendants(t *testing.T) {
	dir := procfs(t, [3]int{1, 0, 1000}, [3]int{20, 1, 5}, [3]int{30, 20, 6}, [3]int{31, 20, 7}, [3]int{40, 30, 8}, [3]int{50, 1, 1000})
	got, err := UsageOf(dir, 20)
	want := Usage{CPU: (5 + 6 + 7 + 8 + 4) * clockTick, Switches: 4 * 7, Processes: 4, Resident: 4 * 10 << 10, Peak: 4 * 20 << 10}
	if err != nil || got != want {
		t.Errorf("%+v, want %+v; %v", got, want, err)
	}
	if _, err := UsageOf(dir, 21); !errors.Is(err, fault.NotFound) {
		t.Errorf("a process that is not there: %v", err)
	}
	if _, err := UsageOf(procfs(t, [3]int{7, 8, 1}, [3]int{8, 7, 1}, [3]int{9, 1, 1}), 9); err != nil {
		t.Errorf("parents in a ring: %v", err)
	}
}

func TestParseStatRefuses(t *testing.T) {
	for _, line := range []string{"", "1 a S", "1 (a S", ") (", "1 (a) S 1", "x (a) S 1 1 1 0 -1 1 1 0 0 0 1 1", "1 (a) S 1 1 1 0 -1 1 1 0 0 0 x 1",
		"1 (a) S x 1 1 0 -1 1 1 0 0 0 1 1"} {
		if s, err := parseStat([]byte(line)); err == nil {
			t.Errorf("%q: %+v", line, s)
		}
	}
}

// transported is a message with a field transport of the given type.
func transported(t *testing.T, kind descriptorpb.FieldDescriptorProto_Type, enum string) *dynamicpb.Message {
	t.Helper()
	field := &descriptorpb.FieldDescriptorProto{Name: proto.String("transport"), Number: proto.Int32(1), Type: kind.Enum(),
		Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()}
	file := &descriptorpb.FileDescriptorProto{Name: proto.String("t.proto"), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{{Name: proto.String("Spec"), Field: []*descriptorpb.FieldDescriptorProto{field}}}}
	if enum != "" {
		field.TypeName = proto.String("." + enum)
		file.EnumType = []*descriptorpb.EnumDescriptorProto{{Name: proto.String(enum), Value: []*descriptorpb.EnumValueDescriptorProto{
			{Name: proto.String("TRANSPORT_AUTO"), Number: proto.Int32(0)}, {Name: proto.String("TRANSPORT_TCP"), Number: proto.Int32(2)}}}}
	}
	built, err := protodesc.NewFile(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	return dynamicpb.NewMessage(built.Messages().Get(0))
}

func TestSetTransport(t *testing.T) {
	text := transported(t, descriptorpb.FieldDescriptorProto_TYPE_STRING, "")
	if err := setTransport(text, "shm"); err != nil || !strings.Contains(text.String(), "shm") {
		t.Errorf("%v, %v", text, err)
	}
	named := transported(t, descriptorpb.FieldDescriptorProto_TYPE_ENUM, "Transport")
	if err := setTransport(named, "tcp"); err != nil || !strings.Contains(named.String(), "TRANSPORT_TCP") {
		t.Errorf("%v, %v", named, err)
	}
	if err := setTransport(named, "carrier-pigeon"); !errors.Is(err, fault.Unsupported) {
		t.Errorf("an unknown transport: %v", err)
	}
	if err := setTransport((&descriptorpb.FieldDescriptorProto{}).ProtoReflect(), "tcp"); !errors.Is(err, fault.Unsupported) {
		t.Errorf("a message without the field: %v", err)
	}
	if err := setTransport((&descriptorpb.FieldDescriptorProto{}).ProtoReflect(), ""); err != nil {
		t.Errorf("no transport: %v", err)
	}
}

// childOf is the command line of this binary as a role or a server.
func childOf(t *testing.T, behaviour string) []string {
	t.Helper()
	t.Setenv(behaviourEnv, behaviour)
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return []string{binary}
}

func TestRunMeasuresAJob(t *testing.T) {
	for _, goroutines := range []bool{true, false} {
		j := Job{Workload: "fit_a_line/sgd", Trainers: 2, Pservers: 1, Goroutines: goroutines, Seconds: 0.01, Memory: 8 << 30}
		r, err := Run(t.Context(), j, childOf(t, "role"), t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		if r.Median <= 0 || r.Windows < 3 || r.Steps < 3 || r.Seconds <= 0 || r.PeakMemory <= 0 || r.Restarts != 0 || (r.Mallocs > 0) != goroutines {
			t.Errorf("goroutines %t: %+v", goroutines, r)
		}
	}
}

// Jobs of one workload share record files only if they want as many records.
func TestJobsOfOneWorkloadHaveTheirOwnRecords(t *testing.T) {
	dir := t.TempDir()
	j := Job{Workload: "fit_a_line/sgd", Trainers: 1, Pservers: 1, Goroutines: true, Passes: 1}
	for _, records := range []int64{400, 40, 400} {
		j.Records = records
		if r, err := Run(t.Context(), j, nil, dir); err != nil || r.Steps != uint64(records)/20 {
			t.Errorf("a job of %d records in batches of 20: %+v, %v", records, r, err)
		}
	}
}

func TestRunRunsAJobToItsEnd(t *testing.T) {
	j := Job{Workload: "fit_a_line/sgd", Trainers: 2, Pservers: 2, Goroutines: true, Passes: 2, Records: 50}
	r, err := Run(t.Context(), j, nil, t.TempDir())
	if err != nil || r.Steps != 6 || r.Seconds <= 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestRunEndsAJobThatTakesTooMuchMemory(t *testing.T) {
	j := Job{Workload: "fit_a_line/sgd", Trainers: 1, Pservers: 1, Goroutines: true, Seconds: 3600, Memory: 1}
	if r, err := Run(t.Context(), j, nil, t.TempDir()); !errors.Is(err, errMemory) {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestRunCopy(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		r, err := RunCopy(t.Context(), Copy{Network: network, Bytes: 1 << 20, Servers: 2, Seconds: 0.01}, childOf(t, "copy"))
		if err != nil || r.Median <= 0 {
			t.Errorf("%s: %+v, %v", network, r, err)
		}
	}
	if _, err := RunCopy(t.Context(), Copy{Network: "tcp", Bytes: 1, Servers: 2}, nil); !errors.Is(err, fault.InvalidArgument) {
		t.Errorf("a byte for two servers: %v", err)
	}
}

func TestServeCopyRefusesAPartOfAShare(t *testing.T) {
	var out bytes.Buffer
	if err := ServeCopy("tcp+", "", 1, &out); err == nil {
		t.Error("no error for an unknown network")
	}
}
