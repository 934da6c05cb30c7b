package listen

import (
	"strings"
	"testing"

	"github.com/edl-go/edl/remote/credential"
	"github.com/edl-go/edl/remote/listen/schedule"
)

// What a job waits for names jobs of its own namespace, and says of others only that they are of another one.
func TestReasonsNameNoOtherNamespace(t *testing.T) {
	sharing := schedule.DefaultPolicy()
	sharing.Turn = 0
	q := newQueue(&Config{Cores: 2000, Sharing: sharing})
	defer q.close()
	enter := func(id string, priority int) {
		t.Helper()
		j := schedule.Job{ID: id, Owner: id, Priority: priority, Trainer: schedule.Resources{Cores: 2000}, Least: 1, Most: 1, Yields: true}
		if err := q.enter(id, schedule.Submitted{Job: j}); err != nil {
			t.Fatal(err)
		}
	}
	text := func(id string) string {
		t.Helper()
		r, _, ok := q.why(id)
		if !ok {
			t.Fatalf("%s does not wait", id)
		}
		return r.String()
	}
	enter("ads.low", 0)
	if err := q.step(schedule.Tick{}); err != nil {
		t.Fatal(err)
	}
	enter("rank.high", 2)
	if got := text("rank.high"); !strings.Contains(got, "suspended for it: (of another namespace)") || strings.Contains(got, "low") {
		t.Errorf("rank.high waits for %s", got)
	}
	if err := q.step(schedule.Left{ID: "ads.low"}); err != nil {
		t.Fatal(err)
	}
	if got := text("ads.low"); !strings.Contains(got, "suspended for job (of another namespace)") || strings.Contains(got, "high") {
		t.Errorf("ads.low waits for %s", got)
	}
}

// What a user submits without a namespace goes to default, or where that is not for the user, to the only one in which the user may submit.
func TestHomeOfASubmission(t *testing.T) {
	for _, c := range []struct {
		roles, named string
		want         string // empty: it is refused
	}{
		{"submitter", "", "default"}, {"submitter", "ads", "ads"}, {"submitter@ads", "", "ads"}, {"submitter@ads", "ads", "ads"}, {"submitter@ads", "default", ""}, {"submitter@ads", "rank", ""},
		{"submitter@ads,viewer@rank", "", "ads"}, {"submitter@ads,submitter@rank", "", ""}, {"viewer,admin@ads", "", "ads"}, {"viewer@ads", "", ""}, {"submitter@ads,submitter@default", "", "default"},
		{"admin", "Ads", ""}, {"admin", "a.b", ""}, {"admin", "../x", ""},
	} {
		access, within, err := credential.ParseGrants(strings.Split(c.roles, ",")...)
		if err != nil {
			t.Fatal(err)
		}
		by := caller{user: "ann", access: access, name: credential.Name{Kind: credential.User, User: "ann", Access: access, Within: within}}
		if got, err := by.home(c.named); got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s submits to %q: %q, %v", c.roles, c.named, got, err)
		}
	}
}

// A name without a namespace is what the same user has submitted with it.
func TestJobsAreFoundByTheirShortNames(t *testing.T) {
	for _, c := range []struct{ roles, id, want string }{
		{"submitter", "digits", "digits"}, {"submitter@ads", "digits", "ads.digits"}, {"viewer@ads", "digits", "ads.digits"}, {"submitter@ads", "rank.digits", "rank.digits"},
		{"submitter@ads,viewer@rank", "digits", "digits"}, {"viewer,submitter@ads", "digits", "digits"}, {"submitter@ads,viewer@default", "digits", "digits"}, {"admin", "digits", "digits"},
	} {
		access, within, err := credential.ParseGrants(strings.Split(c.roles, ",")...)
		if err != nil {
			t.Fatal(err)
		}
		by := caller{user: "ann", access: access, name: credential.Name{Kind: credential.User, User: "ann", Access: access, Within: within}}
		if got := by.means(c.id); got != c.want {
			t.Errorf("%s means by %s: %s, want %s", c.roles, c.id, got, c.want)
		}
	}
}
