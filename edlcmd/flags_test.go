package edlcmd

import (
	"errors"
	"maps"
	"runtime"
	"slices"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
)

func TestFeedsWithoutNamesFillFeedOpsInTurn(t *testing.T) {
	for _, test := range []struct {
		values []string
		want   map[string]string // nil: refused
	}{
		{[]string{"a.npy", "b.npy"}, map[string]string{"x": "a.npy", "y": "b.npy"}},
		{[]string{"x=b.npy", "a.npy"}, map[string]string{"x": "b.npy", "y": "a.npy"}},
		{[]string{"z=c=d.npy"}, map[string]string{"z": "c=d.npy"}},
		{nil, map[string]string{}},
		{[]string{"a.npy", "b.npy", "c.npy"}, nil},
		{[]string{"x=a.npy", "x=b.npy"}, nil},
		{[]string{"=a.npy"}, nil},
		{[]string{"x="}, nil},
	} {
		got, err := feedPaths([]string{"x", "y"}, test.values)
		if test.want == nil {
			if !errors.Is(err, fault.InvalidArgument) {
				t.Errorf("%v: %v, %v", test.values, got, err)
			}
			continue
		}
		if err != nil || !maps.Equal(got, test.want) {
			t.Errorf("%v: %v, %v, want %v", test.values, got, err, test.want)
		}
	}
}

func TestNumbersOfTrainers(t *testing.T) {
	for value, want := range map[string][2]int32{"1": {1, 1}, "2:4": {2, 4}, "3:3": {3, 3}, "0": {}, "4:2": {}, "": {}, "two": {}, "2:": {},
		"-1:2": {}, "99999999999": {}} {
		spec := &job.JobSpec{}
		err := parseTrainers(value, spec)
		if (err == nil) != (want[0] > 0) || [2]int32{spec.Trainers, spec.TrainersMax} != want {
			t.Errorf("%q: %d to %d, %v", value, spec.Trainers, spec.TrainersMax, err)
		}
	}
}

func TestOneDatasetTakesSeveralGlobs(t *testing.T) {
	data, err := parseData("--data", []string{"train=a-*", "test=b", "train=c-*"})
	if err != nil {
		t.Fatal(err)
	}
	if len(data) != 2 || data[0].Dataset != "train" || len(data[0].Globs) != 2 || data[0].Globs[1] != "c-*" {
		t.Errorf("got %v", data)
	}
}

// Flag over environment over default.
func TestPrecedence(t *testing.T) {
	environment := map[string]string{"EDL_MIN_BLOCK_SIZE": "7", "EDL_PASSES": "8", "EDL_SAVE": ""}
	lookup := func(name string) (string, bool) { value, ok := environment[name]; return value, ok }
	flags := pflag.NewFlagSet("edl", pflag.ContinueOnError)
	block := flags.Int("min-block-size", 1, "")
	passes := flags.Int("passes", 1, "")
	save := flags.String("save", "here", "")
	workers := flags.Int("workers", 3, "")
	if err := flags.Parse([]string{"--passes", "9"}); err != nil {
		t.Fatal(err)
	}
	if err := fromEnvironment(flags, lookup); err != nil {
		t.Fatal(err)
	}
	if *block != 7 || *passes != 9 || *save != "here" || *workers != 3 {
		t.Errorf("got %d, %d, %s, %d", *block, *passes, *save, *workers)
	}
	environment["EDL_WORKERS"] = "many"
	if err := fromEnvironment(flags, lookup); !errors.Is(err, fault.InvalidArgument) {
		t.Errorf("got %v", err)
	}
}

// Without a word about workers, a run that has this machine for itself takes all of its cores, and a role of a job one.
func TestWorkersOfARun(t *testing.T) {
	for _, test := range []struct {
		alone bool
		args  []string
		want  int32
	}{
		{true, nil, int32(runtime.GOMAXPROCS(0))},
		{true, []string{"--workers", "7"}, 7},
		{false, nil, 1},
		{false, []string{"--workers", "7"}, 7},
	} {
		f, cmd := &jobFlags{}, &cobra.Command{}
		f.addTraining(cmd)
		f.addCluster(cmd)
		f.alone = test.alone
		if err := cmd.ParseFlags(test.args); err != nil {
			t.Fatal(err)
		}
		if spec, _, err := f.spec(cmd, nil); err != nil || spec.Workers != test.want {
			t.Errorf("alone %v, %v: %d workers, %v, want %d", test.alone, test.args, spec.GetWorkers(), err, test.want)
		}
	}
}

// Lists of flags name flags that there are.
func TestIdleFlagsExist(t *testing.T) {
	flags := newRun(&console{}).Flags()
	for _, name := range slices.Concat(clusterFlags, accessFlags, readingFlags) {
		if flags.Lookup(name) == nil {
			t.Errorf("edl run has no flag --%s", name)
		}
	}
}

// A flag that says how a program is spread is refused where nothing is spread, but for the job file, which says more than that.
func TestFlagsOfClustersAreIdleWithoutOne(t *testing.T) {
	f, cmd := &jobFlags{}, &cobra.Command{}
	f.addCluster(cmd)
	f.addSupervision(cmd)
	cmd.Flags().VisitAll(func(flag *pflag.Flag) {
		if flag.Name != "file" && !slices.Contains(clusterFlags, flag.Name) {
			t.Errorf("clusterFlags lacks --%s", flag.Name)
		}
	})
}
