package accounting

import (
	"encoding/json"
	"math"
	"reflect"
	"testing"

	"github.com/dptrain/dptrain/accountant"
)

func none(any) {}

// A request that is divided among workers has the same answer.
func TestOperations_DividedRequests(t *testing.T) {
	for name, request := range map[string]string{
		"curve":    `{"series":[{"name":"a","plan":{"rate":0.01,"noise":1},"accountant":"rdp","steps":[1,10]},{"name":"b","plan":{"rate":0.1,"noise":2},"accountant":"pld","steps":[5]},{"name":"c","plan":{"rate":0.1,"noise":2},"accountant":"naive","steps":[5]}],"delta":1e-5}`,
		"users":    `{"plan":{"records":1000,"lot":100,"steps":10,"noise":2},"delta":1e-5,"examples":[1,2,5]}`,
		"settings": `{"plan":{"records":1000,"lot":100,"steps":10},"delta":1e-5,"epsilons":[1,2,3,4],"weights":100}`,
		"discard":  `{"instances":5,"epsilon":1,"delta":1e-6,"updates":[1,10,100]}`,
	} {
		var whole, merged any
		decode(t, must(t)(Operations.Answer(name, []byte(request), none)), &whole)
		var parts []json.RawMessage
		decode(t, must(t)(Operations.Split(name, []byte(request), 2)), &parts)
		if len(parts) != 2 {
			t.Errorf("%s: %d parts, 2 are wanted", name, len(parts))
		}
		var answers []json.RawMessage
		for _, p := range parts {
			answers = append(answers, must(t)(Operations.Answer(name, p, none)))
		}
		all, err := json.Marshal(answers)
		if err != nil {
			t.Fatal(err)
		}
		if decode(t, must(t)(Operations.Merge(name, all)), &merged); !reflect.DeepEqual(whole, merged) {
			t.Errorf("%s: in parts %v, as a whole %v", name, merged, whole)
		}
	}
}

func must(t *testing.T) func([]byte, error) []byte {
	return func(text []byte, err error) []byte {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
}

func decode(t *testing.T, text []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatal(err)
	}
}

// The σ of the Gaussian mechanism fulfils the formula of Balle and Wang (2018, theorem 8), and a σ that is
// 0.2% smaller does not.
func TestMechanism_GaussianIsAnalytic(t *testing.T) {
	phi := func(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }
	for _, c := range [][2]float64{{0.1, 1e-5}, {1, 1e-5}, {1, 1e-8}, {8, 1e-6}} {
		a, err := mechanism(mechanismRequest{Kind: "gaussian", Epsilon: c[0], Delta: c[1]}, none)
		if err != nil {
			t.Fatal(err)
		}
		delta := func(sigma float64) float64 {
			return phi(1/(2*sigma)-c[0]*sigma) - math.Exp(c[0])*phi(-1/(2*sigma)-c[0]*sigma)
		}
		if delta(a.Scale) > c[1]*(1+1e-9) || delta(a.Scale*0.998) < c[1] {
			t.Errorf("ε = %g, δ = %g: σ = %v has δ = %g", c[0], c[1], a.Scale, delta(a.Scale))
		}
	}
}

func TestMechanism_PureLossIsWithinEpsilon(t *testing.T) {
	for _, kind := range []string{"laplace", "exponential"} {
		for _, epsilon := range []float64{0.1, 1, 6} {
			a, err := mechanism(mechanismRequest{Kind: kind, Epsilon: epsilon}, none)
			if err != nil || float64(a.Loss) > epsilon*(1+1e-9) {
				t.Errorf("%s at ε = %g: the loss is %v, %v", kind, epsilon, a.Loss, err)
			}
		}
	}
}

// The estimate of 100,000 answers is within 6 standard deviations of the true share: a false alarm has a
// probability of 2·10⁻⁹.
func TestResponses_EstimateIsUnbiased(t *testing.T) {
	for _, epsilon := range []float64{0.3, 1, 4} {
		a, err := responses(responsesRequest{Epsilon: epsilon, People: 100_000, Yes: 0.3}, none)
		if err != nil || math.Abs(a.Estimate-0.3) > 6*a.Deviation {
			t.Errorf("ε = %g: estimate %v ± %v, %v", epsilon, a.Estimate, a.Deviation, err)
		}
	}
}

// The ε of k examples is k·ε₁ for a pair (ε₁, δ₁) of one example whose group has at most the δ: the pair is
// recovered from the answer, and the lemma is applied in another form, as a sum of k terms.
func TestUsers_GroupPrivacy(t *testing.T) {
	const delta = 1e-5
	p := plan{Records: 10_000, Lot: 100, Steps: 100, Noise: 2}
	ks := []int{1, 2, 5, 10}
	a, err := users(usersRequest{Plan: p, Delta: delta, Examples: ks}, none)
	if err != nil {
		t.Fatal(err)
	}
	converted, err := p.accountant()
	if err != nil {
		t.Fatal(err)
	}
	for i, k := range ks {
		one := float64(a.Group[i]) / float64(k)
		g, err := accountant.Delta(converted.History(), one, "rdp")
		if err != nil {
			t.Fatal(err)
		}
		group := 0.0
		for j := range k {
			group += math.Exp(float64(j)*one) * g.Delta
		}
		if group > delta*1.01 {
			t.Errorf("k = %d: δ of the group is %g, above %g", k, group, delta)
		}
		if i > 0 && a.Group[i] <= a.Group[i-1] || float64(a.Group[i]) < a.Example {
			t.Errorf("k = %d: ε = %v after %v, and %v for one example", k, a.Group[i], a.Group[max(0, i-1)], a.Example)
		}
	}
}

func TestPlan_Refused(t *testing.T) {
	for _, p := range []plan{{Sampling: "poisson"}, {Records: 10, Lot: 11}, {Rate: 2}, {Sampling: "bernoulli", Rate: 0.1}} {
		if _, err := p.accountant(); err == nil {
			t.Errorf("%+v is accepted", p)
		}
	}
}
