package sweep_test

import (
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/edl-go/edl/edlcmd/internal/sweep"
)

const head = "program: p.pb\ndata: {train: d}\neval_data: {train: e}\nmetric: auc\n"

func read(t *testing.T, text string) *sweep.Spec {
	t.Helper()
	s, err := sweep.Read(strings.NewReader(head + text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func list(t *testing.T, text string) []sweep.Trial {
	t.Helper()
	trials, err := read(t, text).List()
	if err != nil {
		t.Fatal(err)
	}
	return trials
}

// A grid has each combination once, and the last parameter changes fastest.
func TestGrid(t *testing.T) {
	got := list(t, "passes: 1\nparameters: {seed: [7, 8], batch_size: 4, learning_rate: [0.10, 1e-3]}\n")
	want := []sweep.Trial{
		{"batch_size": "4", "learning_rate": "0.10", "seed": "7"}, {"batch_size": "4", "learning_rate": "0.10", "seed": "8"},
		{"batch_size": "4", "learning_rate": "1e-3", "seed": "7"}, {"batch_size": "4", "learning_rate": "1e-3", "seed": "8"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// A random search is a function of its seed, and more trials begin with those of fewer. Values lie in their ranges, on the scale log as often below the geometric
// mean as above it, and no trial comes twice.
func TestRandom(t *testing.T) {
	const n = 400
	text := "passes: 1\nsearch: random\nparameters: {learning_rate: {from: 0.001, to: 1, scale: log}, batch_size: {from: 1, to: 4}, seed: [5, 6]}\n"
	trials := list(t, text+"seed: 5\ntrials: 400\n")
	if again := list(t, text+"seed: 5\ntrials: 20\n"); !reflect.DeepEqual(again, trials[:20]) {
		t.Errorf("20 trials are not the first ones of 400: %v", again)
	}
	if other := list(t, text+"seed: 6\ntrials: 20\n"); reflect.DeepEqual(other, trials[:20]) {
		t.Error("another seed draws the same trials")
	}
	below, sizes, seen := 0, map[string]int{}, map[string]bool{}
	for _, trial := range trials {
		rate, err := strconv.ParseFloat(trial["learning_rate"], 64)
		if err != nil || rate < 0.001 || rate > 1 {
			t.Fatalf("learning rate %s: %v", trial["learning_rate"], err)
		}
		if rate < math.Sqrt(0.001) {
			below++
		}
		sizes[trial["batch_size"]]++
		key := trial["learning_rate"] + " " + trial["batch_size"] + " " + trial["seed"]
		if seen[key] {
			t.Errorf("trial %s twice", key)
		}
		seen[key] = true
	}
	if below < n/2-60 || below > n/2+60 || len(sizes) != 4 || sizes["1"] < 60 || sizes["4"] < 60 {
		t.Errorf("%d of %d rates below the mean, batch sizes %v", below, n, sizes)
	}
}

// Of halved trials the best go on, whatever the order in which they end; failed ones never do, and equal ones go on by their numbers.
func TestHalving(t *testing.T) {
	s := read(t, "passes: 8\nsearch: random\ntrials: 5\nparameters: {learning_rate: {from: 0, to: 1}}\nhalving: {start: 1, factor: 2}\n")
	rungs := s.Rungs(5)
	if want := []sweep.Rung{{5, 1}, {2, 2}, {1, 8}}; !reflect.DeepEqual(rungs, want) {
		t.Fatalf("rungs %v, want %v", rungs, want)
	}
	outcomes := map[sweep.Run]sweep.Outcome{
		{0, 0}: {Failed: true}, {1, 0}: {Score: 0.5}, {2, 0}: {Score: math.NaN()}, {3, 0}: {Score: 0.7}, {4, 0}: {Score: 0.5},
		{1, 1}: {Score: 0.9}, {3, 1}: {Score: 0.9}, {1, 2}: {Score: 0.4},
	}
	larger := func(a, b float64) bool { return a > b || !math.IsNaN(a) && math.IsNaN(b) }
	for _, parallel := range []int{1, 2, 5} {
		for _, newest := range []bool{false, true} { // the run that ends first
			m := sweep.New(rungs, parallel, larger)
			f, err := m.Step(sweep.Begin{})
			var running, all []sweep.Run
			for ; err == nil; f, err = m.Step(ended(t, m, &running, newest, outcomes)) {
				running, all = append(running, f.Runs...), append(all, f.Runs...)
				if len(running) > parallel || f.Done != (len(running) == 0) {
					t.Fatalf("%d at a time: %v run, done %v", parallel, running, f.Done)
				}
				if f.Done {
					break
				}
			}
			if err != nil || len(all) != len(outcomes) {
				t.Errorf("%d at a time: runs %v, want %d, %v", parallel, all, len(outcomes), err)
			}
		}
	}
	m := sweep.New([]sweep.Rung{{1, 1}, {1, 2}}, 1, larger)
	f, err := m.Step(sweep.Begin{})
	if err != nil || len(f.Runs) != 1 {
		t.Fatalf("%+v, %v", f, err)
	}
	if f, err = m.Step(sweep.Ended{Run: f.Runs[0], Outcome: sweep.Outcome{Failed: true}}); err != nil || !f.Done || len(f.Runs) > 0 {
		t.Errorf("a sweep goes on with a trial that has failed: %+v, %v", f, err)
	}
}

// ended takes the newest or the oldest run, and returns its end. A run of which no outcome is known must not be. A run that has ended before does not end again.
func ended(t *testing.T, m *sweep.Machine, running *[]sweep.Run, newest bool, outcomes map[sweep.Run]sweep.Outcome) sweep.Ended {
	t.Helper()
	i := 0
	if newest {
		i = len(*running) - 1
	}
	r := (*running)[i]
	*running = slices.Delete(*running, i, i+1)
	o, known := outcomes[r]
	if !known {
		t.Fatalf("run %v, which must not be", r)
	}
	if _, err := m.Step(sweep.Ended{Run: sweep.Run{Trial: r.Trial, Rung: r.Rung + 1}, Outcome: o}); err == nil {
		t.Fatalf("trial %d ended on a rung on which it does not run", r.Trial)
	}
	return sweep.Ended{Run: r, Outcome: o}
}

// What has no meaning is refused, and the message says what has.
func TestRefused(t *testing.T) {
	for text, want := range map[string]string{
		"passes: 1\n": "parameters: invalid argument: got none, want at least one",
		"passes: 1\nparameters: {program: [a, b]}\n":                                                        "want one program here, or several under parameters",
		"parameters: {seed: [1]}\n":                                                                         "passes: invalid argument: got 0, want 1 or more",
		"passes: 1\nparameters: {passes: [1, 2]}\n":                                                         "want passes in one place",
		"passes: 1\nparameters: {rate: [1]}\n":                                                              "line 6, parameter rate",
		"passes: 1\nparameters: {learning_rat: [1]}\n":                                                      `did you mean "learning_rate"`,
		"passes: 1\nparameters: {learning_rate: [fast]}\n":                                                  "want a number from 0",
		"passes: 1\nparameters: {learning_rate: [-1]}\n":                                                    "want a number from 0",
		"passes: 1\nparameters: {batch_size: [0]}\n":                                                        "want a whole number from 1",
		"passes: 1\nparameters: {seed: [1, 1]}\n":                                                           "want each value once",
		"passes: 1\nparameters: {seed: []}\n":                                                               "got no values",
		"passes: 1\nparameters: {seed: {from: 1, to: 2, step: 1}}\n":                                        `a range has no member "step"`,
		"passes: 1\nsearch: halving\nparameters: {seed: [1]}\n":                                             "halving is a member of its own",
		"passes: 1\nsearch: random\nparameters: {seed: [1]}\n":                                              "trials: invalid argument: got 0, want 1 to 10000",
		"passes: 1\ntrials: 3\nparameters: {seed: [1]}\n":                                                   "nothing for a grid",
		"passes: 4\nparameters: {seed: [1]}\nhalving: {start: 4, factor: 2}\n":                              "want start from 1 to less than passes",
		"passes: 4\nparameters: {seed: [1]}\nhalving: {start: 1, factor: 1}\n":                              "factor from 2",
		"passes: 1\nsearch: random\ntrials: 2\nparameters: {seed: {from: 2, to: 2}}\n":                      "want from below to",
		"passes: 1\nsearch: random\ntrials: 2\nparameters: {learning_rate: {from: 0, to: 2, scale: log}}\n": "want a positive number for the scale log",
		"passes: 1\nsearch: random\ntrials: 2\nparameters: {seed: {from: 1, to: .inf}}\n":                   "want from below to",
	} {
		_, err := sweep.Read(strings.NewReader(head + text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q:\n%v\nwant %s", text, err, want)
		}
	}
	var values []string
	for i := range 200 {
		values = append(values, strconv.Itoa(i+1))
	}
	many := "passes: 1\nparameters: {seed: [" + strings.Join(values, ",") + "], batch_size: [" + strings.Join(values, ",") + "]}\n"
	if _, err := read(t, many).List(); err == nil || !strings.Contains(err.Error(), "more than 10000 trials") {
		t.Errorf("a grid of 40000 trials: %v", err)
	}
	if _, err := read(t, "passes: 1\nsearch: random\ntrials: 3\nparameters: {seed: [1, 2]}\n").List(); err == nil || !strings.Contains(err.Error(), "have 2 different choices") {
		t.Errorf("3 trials of 2 choices: %v", err)
	}
}
