package problems

import (
	"fmt"
	"math"
	"math/rand/v2"

	"trainopt/morl"
)

// Actions of the minecart.
const (
	mineOre = iota
	turnLeft
	turnRight
	accelerate
	brake
	idle
	minecartActions
)

// Constants of the minecart: Abels et al. 2019, "Dynamic Weights in Multi-Objective Deep Reinforcement Learning", in
// the deterministic configuration of MO-Gymnasium. Lengths are in sides of the square, speeds in sides per frame.
const (
	frames       = 4      // frames per action
	turn         = 10.0   // degrees per frame
	acceleration = 0.0075 // per frame
	deceleration = 1.0    // per frame: braking stops immediately
	topSpeed     = 1.0
	atRest       = 0.001 // lower speeds count as 0
	capacity     = 1.5   // capacity of the cart in ore
	mineRadius   = 0.14
	baseRadius   = 0.15
	facing       = 45.0 // initial direction in degrees, from the x axis towards the y axis
	fuelIdle     = -0.005
	fuelAccel    = -0.025
	fuelMine     = -0.05
	ores         = 2
)

// mine is the position and the yield of a mine.
type mine struct {
	x, y float64
	ore  [ores]float64 // per frame of mining
}

var mines = []mine{
	{0.16, 0.84, [ores]float64{0.2, 0}},
	{0.50, 0.84, [ores]float64{0.15, 0.1}},
	{0.84, 0.84, [ores]float64{0.2, 0.2}},
	{0.84, 0.50, [ores]float64{0.1, 0.15}},
	{0.84, 0.16, [ores]float64{0, 0.2}},
}

// cart is the state of an episode.
type cart struct {
	x, y, speed, angle float64
	content            [ores]float64
	departed, returned bool
}

// minecart is the environment; seen and rewards are its output buffers.
type minecart struct {
	cart    cart
	steps   int
	running bool
	seen    [5 + ores]float32
	rewards [ores + 1]float32
}

var _ Problem = (*minecart)(nil)

// minecartDeterministic returns the minecart of Abels et al. (2019) without noise: drive from the base at (0, 0) in
// the unit square to one of five mines, stop, mine, and return to the base, which sells the ore and ends the episode.
// An action lasts 4 frames. Actions: Mine (only at rest near a mine; the cart holds 1.5), turnLeft, turnRight (10°
// per frame), Accelerate, Brake, Idle. Objectives: first ore, second ore, fuel (negative). The state is x, y, speed,
// sine and cosine of the direction, and the two ores as shares of the capacity. The problem is deterministic. Limit
// 1000; reference (−1, −1, −200).
func minecartDeterministic() Problem { return &minecart{} }

func (*minecart) Name() string         { return "minecart-deterministic" }
func (*minecart) Limit() int           { return 1000 }
func (*minecart) Reference() []float64 { return []float64{-1, -1, -200} }

func (m *minecart) Shape() morl.Shape {
	return morl.Shape{State: len(m.seen), Actions: minecartActions, Objectives: []string{"ore 1", "ore 2", "fuel"}}
}

// Reset starts an episode; rng may be nil.
func (m *minecart) Reset(*rand.Rand) morl.Observation {
	m.cart, m.steps, m.running = cart{angle: facing}, 0, true
	return morl.Observation{State: m.cart.show(&m.seen)}
}

// Step implements morl.Environment.
func (m *minecart) Step(action int) morl.Outcome {
	if !m.running {
		panic(fmt.Sprintf("problems: %s: Step without Reset or after the end", m.Name()))
	}
	checkAction(m.Name(), action, minecartActions)
	reward := m.cart.act(action)
	for i, r := range reward {
		m.rewards[i] = float32(r)
	}
	m.steps++
	cut := !m.cart.returned && m.steps >= m.Limit()
	m.running = !m.cart.returned && !cut
	return morl.Outcome{
		Observation: morl.Observation{State: m.cart.show(&m.seen)},
		Reward:      m.rewards[:], Done: m.cart.returned, Cut: cut, Work: 1,
	}
}

// Return simulates one episode.
func (m *minecart) Return(policy tablePolicy, gamma float64) []float64 {
	checkGamma(m.Name(), gamma)
	c := cart{angle: facing}
	var seen [5 + ores]float32
	total := make([]float64, ores+1)
	discount := 1.0
	for step := 0; step < m.Limit() && !c.returned && discount > 0; step++ {
		action := policy(c.show(&seen), nil)
		checkAction(m.Name(), action, minecartActions)
		for i, r := range c.act(action) {
			total[i] += discount * r
		}
		discount *= gamma
	}
	return total
}

// show encodes the state of the cart.
func (c *cart) show(into *[5 + ores]float32) []float32 {
	sine, cosine := math.Sincos(c.angle * math.Pi / 180)
	into[0], into[1], into[2] = float32(c.x), float32(c.y), float32(c.speed)
	into[3], into[4] = float32(sine), float32(cosine)
	for i, x := range c.content {
		into[5+i] = float32(x / capacity)
	}
	return into[:]
}

// fuel returns the fuel reward of an action, in full even if the episode ends during it.
func fuel(action int) float64 {
	switch action {
	case mineOre:
		return frames * (fuelIdle + fuelMine)
	case accelerate:
		return frames * (fuelIdle + fuelAccel)
	}
	return frames * fuelIdle
}

// act executes an action and returns its reward. The action is repeated for its frames, or until the cart arrives at
// the base, which sells the ore.
func (c *cart) act(action int) (reward [ores + 1]float64) {
	reward[ores] = fuel(action)
	for range frames {
		switch action {
		case mineOre:
			c.mine()
		case turnLeft:
			c.angle = turned(c.angle, -turn)
		case turnRight:
			c.angle = turned(c.angle, turn)
		case accelerate:
			c.speed = min(c.speed+acceleration, topSpeed)
		case brake:
			c.speed = max(c.speed-deceleration, 0)
		}
		if c.returned {
			break // as in the original, an arriving cart steers for one more frame; only the final state shows it
		}
		c.move()
		if length(c.x, c.y) >= baseRadius {
			c.departed = true
		} else if c.departed {
			c.returned = true
			copy(reward[:ores], c.content[:])
			c.content = [ores]float64{}
		}
	}
	return reward
}

// turned returns angle + by, normalised to 0…360 degrees.
func turned(angle, by float64) float64 {
	angle = math.Mod(angle+by, 360)
	if angle < 0 {
		angle += 360
	}
	return angle
}

// mine takes ore from the nearest mine if the cart is at rest within its reach; the ores are scaled to the free
// capacity.
func (c *cart) mine() {
	if c.speed >= atRest {
		return
	}
	nearest, distance := mine{}, math.Inf(1)
	for _, m := range mines {
		if d := length(c.x-m.x, c.y-m.y); d < distance {
			nearest, distance = m, d
		}
	}
	if distance > mineRadius {
		return
	}
	mined, free := 0.0, float64(capacity)
	for i, x := range nearest.ore {
		mined += x
		free -= c.content[i]
	}
	share := min(1, max(0, free)/mined)
	for i, x := range nearest.ore {
		c.content[i] += share * x
	}
}

// move advances one frame. At a border the cart turns and slides along it, and its speed is the distance covered.
func (c *cart) move() {
	if c.speed < atRest {
		return
	}
	sine, cosine := math.Sincos(c.angle * math.Pi / 180)
	vx, vy := c.speed*cosine, c.speed*sine
	if c.y != 0 && c.y != 1 && math.Abs(vy) > atRest {
		if c.x == 1 && vx > 0 {
			c.angle += math.Copysign(turn, vy)
		}
		if c.x == 0 && vx < 0 {
			c.angle -= math.Copysign(turn, vy)
		}
	}
	if c.x != 0 && c.x != 1 && math.Abs(vx) > atRest {
		if c.y == 1 && vy > 0 {
			c.angle -= math.Copysign(turn, vx)
		}
		if c.y == 0 && vy < 0 {
			c.angle += math.Copysign(turn, vx)
		}
	}
	x, y := clip(c.x+vx), clip(c.y+vy)
	c.speed = length(x-c.x, y-c.y)
	c.x, c.y = x, y
}

// clip clips x to 0…1.
func clip(x float64) float64 { return min(1, max(0, x)) }

// length returns the length of a vector.
func length(x, y float64) float64 { return math.Sqrt(x*x + y*y) }
