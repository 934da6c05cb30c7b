// Package sweep decides what a sweep tries: which values of overrides, in which order, and which trials go on. It runs nothing. spec.go is the file that
// a user writes, trials.go draws or lists what to try, and machine.go decides what runs next.
package sweep

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/plainyaml"
	"github.com/edl-go/edl/metrics"
	"gopkg.in/yaml.v3"
)

// A Spec is a sweep file.
type Spec struct {
	Name       string               `yaml:"name"`    // of its jobs on a listener, before their numbers
	Program    string               `yaml:"program"` // unless Parameters has programs
	Data       map[string]Texts     `yaml:"data"`
	EvalData   map[string]Texts     `yaml:"eval_data"`
	Metric     string               `yaml:"metric"` // trials are compared by it: loss, or what "edl run --metric" takes
	Passes     int32                `yaml:"passes"` // unless Parameters has passes; with Halving the most
	Search     string               `yaml:"search"` // grid (the default) or random
	Trials     int                  `yaml:"trials"` // of a random search
	Seed       uint64               `yaml:"seed"`   // of a random search
	Parameters map[string]Parameter `yaml:"parameters"`
	Halving    *Halving             `yaml:"halving"`  // nil: each trial has all passes
	Parallel   int                  `yaml:"parallel"` // trials at a time; 0: not given
	Run        map[string]Texts     `yaml:"run"`      // other flags of "edl run", by name
}

// Halving ends the worse trials early. All trials have Start passes; of these the best 1/Factor go on to Factor times as many, and so on.
type Halving struct {
	Start  int32 `yaml:"start"`
	Factor int32 `yaml:"factor"`
}

// A Parameter is what an override may be: Values, or for a random search also a number of a range.
type Parameter struct {
	Values []string
	Range  *Range
	line   int
}

// A Range is numbers from From to To, inclusive. On the scale log, each factor is as probable as any other.
type Range struct {
	From  float64 `yaml:"from"`
	To    float64 `yaml:"to"`
	Scale string  `yaml:"scale"` // linear (the default) or log
}

// Texts is a value of a flag, or several.
type Texts []string

// UnmarshalYAML takes a scalar for a list of one, and takes numbers and truth values as they are written.
func (t *Texts) UnmarshalYAML(n *yaml.Node) error {
	nodes := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		nodes = n.Content
	}
	for _, n := range nodes {
		if n.Kind != yaml.ScalarNode {
			return wrongAt(n.Line, "want a text, or a list of texts")
		}
		*t = append(*t, n.Value)
	}
	return nil
}

// UnmarshalYAML takes one value, a list of values, or a range.
func (p *Parameter) UnmarshalYAML(n *yaml.Node) error {
	p.line = n.Line
	if n.Kind != yaml.MappingNode {
		return (*Texts)(&p.Values).UnmarshalYAML(n)
	}
	for i := 0; i < len(n.Content); i += 2 {
		if key := n.Content[i]; !slices.Contains([]string{"from", "to", "scale"}, key.Value) {
			return wrongAt(key.Line, "a range has no member "+fault.Quote(key.Value)+", want from, to and scale")
		}
	}
	return n.Decode(&p.Range)
}

// wrongAt is a mistake that the decoder collects with the others.
func wrongAt(line int, what string) error {
	return &yaml.TypeError{Errors: []string{"line " + strconv.Itoa(line) + ": " + what}}
}

// maxFile bounds a sweep file, in bytes.
const maxFile = 1 << 20

// members are those of a sweep file.
var members = []string{"name", "program", "data", "eval_data", "metric", "passes", "search", "trials", "seed", "parameters", "halving", "parallel", "run", "start", "factor", "from", "to", "scale"}

// unknownMember is what package yaml says of a member that a type does not have.
var unknownMember = regexp.MustCompile(`line ([0-9]+): field (\S+) not found in type \S+`)

// Read reads a sweep file and checks it. An unknown member is an error, because it is probably misspelt.
func Read(r io.Reader) (*Spec, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, "sweep file", err)
	}
	if len(b) > maxFile {
		return nil, fault.E(fault.TooLarge, fault.Got("a sweep file of more than 1 MiB"), fault.Want("some lines of YAML"))
	}
	s := &Spec{}
	d := yaml.NewDecoder(bytes.NewReader(b))
	d.KnownFields(true)
	if err := d.Decode(s); err != nil && !errors.Is(err, io.EOF) {
		if unknown := unknownMember.FindStringSubmatch(err.Error()); unknown != nil {
			return nil, fault.E(fault.InvalidArgument, fault.At("line "+unknown[1]), fault.Got("the member "+fault.Quote(unknown[2])+", which a sweep file does not have"),
				fault.DidYouMean(unknown[2], members))
		}
		return nil, fault.Wrap(fault.InvalidArgument, "sweep file", errors.New(strings.Join(strings.Fields(plainyaml.Plain(err, "a sweep file: NAME: VALUE in each line").Error()), " ")))
	}
	return s, s.check()
}

// kinds are the parameters that a sweep may have, and what is wrong with a value of each; empty: nothing.
var kinds = map[string]func(text string) (want string){
	"learning_rate": func(text string) string {
		if v, err := strconv.ParseFloat(text, 64); err != nil || !(v >= 0) || v > math.MaxFloat32 {
			return "a number from 0"
		}
		return ""
	},
	"batch_size": count,
	"passes":     count,
	"seed": func(text string) string {
		if _, err := strconv.ParseInt(text, 10, 64); err != nil {
			return "a whole number"
		}
		return ""
	},
	"program": func(text string) string {
		if text == "" {
			return "the path of a program"
		}
		return ""
	},
}

func count(text string) string {
	if n, err := strconv.ParseInt(text, 10, 32); err != nil || n < 1 {
		return "a whole number from 1"
	}
	return ""
}

// check refuses what has no meaning, and says at which member.
func (s *Spec) check() error {
	wrong := func(at, got, want string, more ...fault.Field) error {
		return fault.E(fault.InvalidArgument, append([]fault.Field{fault.At(at), fault.Got(got), fault.Want(want)}, more...)...)
	}
	_, programs := s.Parameters["program"]
	_, passes := s.Parameters["passes"]
	if s.Search == "" {
		s.Search = "grid"
	}
	switch {
	case len(s.Parameters) == 0:
		return wrong("parameters", "none", "at least one, such as learning_rate: [0.1, 0.01]")
	case programs == (s.Program != ""):
		return wrong("program", strconv.Quote(s.Program), "one program here, or several under parameters")
	case len(s.EvalData) == 0:
		return wrong("eval_data", "none", "held-back records, by which trials are compared, such as {train: data/test-*}")
	case s.Metric == "":
		return wrong("metric", "none", "loss, or what --metric takes: "+strings.Join(metrics.Kinds(), ", "))
	case s.Search != "grid" && s.Search != "random":
		return wrong("search", fault.Quote(s.Search), "grid or random", fault.Hint("halving is a member of its own, beside either"))
	case s.Search == "random" && (s.Trials < 1 || s.Trials > maxTrials):
		return wrong("trials", strconv.Itoa(s.Trials), "1 to "+strconv.Itoa(maxTrials)+" for a random search")
	case s.Search == "grid" && s.Trials != 0:
		return wrong("trials", strconv.Itoa(s.Trials), "nothing for a grid, which has a trial for each combination")
	case passes && (s.Passes != 0 || s.Halving != nil):
		return wrong("passes", "them twice", "passes in one place; with halving not under parameters")
	case !passes && s.Passes < 1:
		return wrong("passes", strconv.Itoa(int(s.Passes)), "1 or more")
	case s.Halving != nil && (s.Halving.Start < 1 || s.Halving.Start >= s.Passes || s.Halving.Factor < 2):
		return wrong("halving", "start "+strconv.Itoa(int(s.Halving.Start))+" and factor "+strconv.Itoa(int(s.Halving.Factor)), "start from 1 to less than passes, and factor from 2")
	case s.Parallel < 0:
		return wrong("parallel", strconv.Itoa(s.Parallel), "1 or more")
	}
	if s.Metric != metrics.Loss {
		if _, err := metrics.ParseSpec(s.Metric); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Parameters)) {
		if err := s.Parameters[name].check(name, s.Search); err != nil {
			return err
		}
	}
	return nil
}

func (p Parameter) check(name, search string) error {
	at := fault.Atf("line %d, parameter %s", p.line, name)
	valid, known := kinds[name]
	if !known {
		names := slices.Sorted(maps.Keys(kinds))
		return fault.E(fault.InvalidArgument, at, fault.Got("no parameter of a sweep"), fault.Want("one of "+strings.Join(names, ", ")), fault.DidYouMean(name, names))
	}
	if r := p.Range; r != nil {
		switch {
		case search != "random":
			return fault.E(fault.InvalidArgument, at, fault.Got("a range in a grid"), fault.Want("a list of values, or search: random"))
		case name == "program":
			return fault.E(fault.InvalidArgument, at, fault.Got("a range"), fault.Want("a list of files"))
		case !(r.From < r.To) || math.IsInf(r.From, 0) || math.IsInf(r.To, 0):
			return fault.E(fault.InvalidArgument, at, fault.Gotf("from %v to %v", r.From, r.To), fault.Want("from below to"))
		case r.Scale != "" && r.Scale != "linear" && r.Scale != "log":
			return fault.E(fault.InvalidArgument, at, fault.Got("the scale "+fault.Quote(r.Scale)), fault.Want("linear or log"))
		case r.Scale == "log" && !(r.From > 0):
			return fault.E(fault.InvalidArgument, at, fault.Gotf("from %v", r.From), fault.Want("a positive number for the scale log"))
		}
		for _, end := range []float64{r.From, r.To} {
			if want := valid(p.text(name, end)); want != "" {
				return fault.E(fault.InvalidArgument, at, fault.Gotf("%v", end), fault.Want(want))
			}
		}
		return nil
	}
	if len(p.Values) == 0 {
		return fault.E(fault.InvalidArgument, at, fault.Got("no values"), fault.Want("at least one"))
	}
	for i, text := range p.Values {
		if want := valid(text); want != "" {
			return fault.E(fault.InvalidArgument, at, fault.Got(fault.Quote(text)), fault.Want(want))
		}
		if slices.Contains(p.Values[:i], text) {
			return fault.E(fault.InvalidArgument, at, fault.Got(fault.Quote(text)+" twice"), fault.Want("each value once"))
		}
	}
	return nil
}
