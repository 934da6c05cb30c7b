package credential_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote/credential"
)

// Roles in single namespaces are the same in a name, its certificate, and its text; roles in all namespaces are as they were before there were others.
func TestRolesInNamespaces(t *testing.T) {
	a, err := credential.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	const none = credential.Access("")
	for _, c := range []struct {
		roles               []string
		text                string
		ads, rank, fallback credential.Access
		most                credential.Access
		submits             []string
	}{
		{[]string{"viewer"}, "viewer", credential.Viewer, credential.Viewer, credential.Viewer, credential.Viewer, nil},
		{[]string{"admin"}, "admin", credential.Admin, credential.Admin, credential.Admin, credential.Admin, nil},
		{[]string{"submitter@ads"}, "submitter@ads", credential.Submitter, none, none, credential.Submitter, []string{"ads"}},
		{[]string{"viewer@rank", "submitter@ads"}, "submitter@ads,viewer@rank", credential.Submitter, credential.Viewer, none, credential.Submitter, []string{"ads"}},
		{[]string{"viewer@ads", "admin@ads", "submitter@ads"}, "admin@ads", credential.Admin, none, none, credential.Admin, []string{"ads"}},
		{[]string{"submitter", "viewer@ads", "admin@rank"}, "submitter,admin@rank", credential.Submitter, credential.Admin, credential.Submitter, credential.Admin, []string{"rank"}},
		{[]string{"viewer@default"}, "viewer@default", none, none, credential.Viewer, credential.Viewer, nil},
	} {
		access, within, err := credential.ParseGrants(c.roles...)
		if err != nil {
			t.Fatal(err)
		}
		own, err := a.Issue(credential.Name{Kind: credential.User, User: "ann", Access: access, Within: within}, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		shown, err := own.Certificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		n, err := credential.NameOf(tls.ConnectionState{PeerCertificates: []*x509.Certificate{shown.Leaf}})
		if err != nil || n.Roles() != c.text || n.String() != "user/ann/"+c.text {
			t.Errorf("%v: %s with %q, %v", c.roles, n, n.Roles(), err)
			continue
		}
		if n.In("ads") != c.ads || n.In("rank") != c.rank || n.In("default") != c.fallback || n.Most() != c.most || !slices.Equal(n.Where(credential.Submitter), c.submits) {
			t.Errorf("%v: %s in ads, %s in rank, %s in default, at most %s, submits to %v", c.roles, n.In("ads"), n.In("rank"), n.In("default"), n.Most(), n.Where(credential.Submitter))
		}
	}
	var many []string
	for i := range 33 {
		many = append(many, fmt.Sprintf("viewer@n%d", i))
	}
	for _, roles := range [][]string{{""}, {"root"}, {"viewer@"}, {"@ads"}, {"viewer@Ads"}, {"viewer@ads,admin"}, {"viewer@a/b"}, {"viewer@a.b"}, {"viewer@nodes"}, {"viewer@-a"}, {"viewer@" + strings.Repeat("a", 33)}, many} {
		if access, within, err := credential.ParseGrants(roles...); !errors.Is(err, fault.InvalidArgument) && !errors.Is(err, fault.TooLarge) {
			t.Errorf("%.60q: %s, %s, %v", roles, access, within, err)
		}
	}
}
