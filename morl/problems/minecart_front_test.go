package problems

import (
	"math"
	"slices"
)

// KnownFront is MO-Gymnasium's approximation, a reference and not a bound (exact is false): when executed, 2 of the 20
// plans at discount 0.98 earn the listed return; others miss their mine. Learners nevertheless have exceeded its
// hypervolume (MO-Gymnasium issue 78). It does not simulate episodes. For each mine it lists the sequences of turning towards it, accelerating or
// idling there, braking, turning round, mining once or more, and accelerating and idling back in the same way, with
// the returns they would have if the distances matched; and one short trip to no mine.
func (m *minecart) KnownFront(gamma float64) (front [][]float64, exact bool) {
	checkGamma(m.Name(), gamma)
	for _, plan := range listedPlans() {
		front = append(front, plan.earns(gamma))
	}
	front = nonDominated(front)
	slices.SortFunc(front, slices.Compare[[]float64])
	return front, false
}

// listedPlan is a sequence of actions with the ore that the list assumes for its last action.
type listedPlan struct {
	actions []int
	ore     [ores]float64
}

// earns returns the discounted return of the plan as listed.
func (p listedPlan) earns(gamma float64) []float64 {
	total := make([]float64, ores+1)
	discount := 1.0
	for i, a := range p.actions {
		total[ores] += discount * fuel(a)
		if i == len(p.actions)-1 {
			for k, x := range p.ore {
				total[k] = discount * x
			}
		}
		discount *= gamma
	}
	return total
}

// listedPlans returns the plans for all mines and the short trip.
func listedPlans() []listedPlan {
	const perTurn = turn * frames
	round := slices.Repeat([]int{turnLeft}, 4) // 160°: the largest number of whole actions within half a turn
	var plans []listedPlan
	for _, m := range mines {
		degrees := math.Abs(math.Atan2(m.y, m.x)*180/math.Pi - facing)
		turns := slices.Repeat([]int{turnLeft}, int(math.Ceil(degrees/perTurn)))
		perAction, sum := m.ore, 0.0
		for i := range perAction {
			perAction[i] *= frames
			sum += perAction[i]
		}
		for _, drive := range drives(length(m.x, m.y) - mineRadius - baseRadius/2) {
			for times := 1; times <= int(math.Ceil(capacity/sum)); times++ {
				p := listedPlan{actions: slices.Concat(turns, drive, []int{brake}, round,
					slices.Repeat([]int{mineOre}, times), drive)}
				for i, x := range perAction {
					p.ore[i] = x * float64(times) / max(1, sum*float64(times)/capacity)
				}
				plans = append(plans, p)
			}
		}
	}
	// To the edge of the base and back.
	for _, drive := range drives(baseRadius - mineRadius - baseRadius/2) {
		plans = append(plans, listedPlan{actions: slices.Concat(drive, round, []int{idle}, drive[1:])})
	}
	return plans
}

// drives returns the sequences of two or more Accelerate and Idle actions, Accelerate first, that reach a distance
// during their last action. Exponential in their length, which is at most 9 for the mines here.
func drives(distance float64) [][]int {
	var list [][]int
	var extend func(sofar []int, speed, left float64)
	extend = func(sofar []int, speed, left float64) {
		for _, a := range []int{accelerate, idle} {
			next := append(slices.Clone(sofar), a)
			faster, remains := speed, left
			for range frames {
				if a == accelerate {
					faster += acceleration
				}
				remains -= faster
			}
			if remains <= 0 {
				list = append(list, next)
			} else {
				extend(next, faster, remains)
			}
		}
	}
	speed, left := 0.0, distance
	for range frames {
		speed += acceleration
		left -= speed
	}
	extend([]int{accelerate}, speed, left)
	return list
}
