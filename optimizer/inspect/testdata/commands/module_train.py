from module_options import parser

args = parser.parse_args()
for epoch in range(args.epochs):
    train(args.batch_size, args.num_workers)
