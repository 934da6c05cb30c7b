// Package alerts checks what the documentation gives to Prometheus and Grafana, by Prometheus' own parser. It is a module of its own, so that users of EDL need no Prometheus.
package alerts

import (
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

// folder has the files.
var folder = filepath.Join("..", "..", "docs", "observability")

// counted are the functions that take a fall of a metric for a counter that has begun anew.
var counted = map[string]bool{"increase": true, "rate": true, "irate": true, "resets": true}

// checkCounters refuses counted functions of a metric that is no counter: what falls, as a number of jobs does, would be counted as an increase.
func checkCounters(e parser.Expr) error {
	var wrong []error
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		call, ok := n.(*parser.Call)
		if !ok || !counted[call.Func.Name] {
			return nil
		}
		for _, argument := range call.Args {
			parser.Inspect(argument, func(n parser.Node, _ []parser.Node) error {
				if s, ok := n.(*parser.VectorSelector); ok && !strings.HasSuffix(s.Name, "_total") {
					wrong = append(wrong, errors.New(call.Func.Name+" of "+s.Name+", which is no counter"))
				}
				return nil
			})
		}
		return nil
	})
	return errors.Join(wrong...)
}

func TestAlertRules(t *testing.T) {
	p := parser.NewParser(parser.Options{})
	groups, wrong := rulefmt.ParseFile(filepath.Join(folder, "alerts.yaml"), false, model.LegacyValidation, p, slog.New(slog.DiscardHandler))
	if len(wrong) > 0 {
		t.Fatal(errors.Join(wrong...))
	}
	rules := 0
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			rules++
			e, err := p.ParseExpr(r.Expr)
			if err == nil {
				err = checkCounters(e)
			}
			if err != nil || e.Type() != parser.ValueTypeVector {
				t.Errorf("%s: %v", r.Alert, err)
			}
			if r.Labels["severity"] == "" || r.Annotations["summary"] == "" {
				t.Errorf("%s has labels %v and annotations %v", r.Alert, r.Labels, r.Annotations)
			}
		}
	}
	if rules < 5 {
		t.Errorf("%d rules", rules)
	}
}

func TestDashboardQueries(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(folder, "grafana.json"))
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(b, &dashboard); err != nil {
		t.Fatal(err)
	}
	p, queries := parser.NewParser(parser.Options{}), 0
	filled := strings.NewReplacer("$job", "digits|words", "$__rate_interval", "1m") // as Grafana does with its variables
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			queries++
			e, err := p.ParseExpr(filled.Replace(target.Expr))
			if err == nil {
				err = checkCounters(e)
			}
			if err != nil || strings.Contains(filled.Replace(target.Expr), "$") {
				t.Errorf("%s: %s: %v", panel.Title, target.Expr, err)
			}
		}
	}
	if queries < 10 {
		t.Errorf("%d queries", queries)
	}
}
