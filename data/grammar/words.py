"""The words of the grammar, each with its translation and what it may be joined with."""

from typing import NamedTuple

from .english import Person

YOUNG = [
    Person("我弟弟", "my younger brother", "he"),
    Person("我妹妹", "my younger sister", "he"),
    Person("孩子们", "the children", "you"),
]
ADULTS = [
    Person("我", "I", "I"),
    Person("他", "he", "he"),
    Person("她", "she", "he"),
    Person("我们", "we", "you"),
    Person("他们", "they", "you"),
    Person("我爸爸", "my father", "he"),
    Person("我妈妈", "my mother", "he"),
    Person("我哥哥", "my older brother", "he"),
    Person("我姐姐", "my older sister", "he"),
    Person("我的朋友", "my friend", "he"),
    Person("我的老师", "my teacher", "he"),
    Person("小明", "Xiaoming", "he"),
    Person("小红", "Xiaohong", "he"),
]
PEOPLE = ADULTS + YOUNG

ASKED = [  # whom a question may be about
    Person("你", "you", "you"),
    Person("他", "he", "he"),
    Person("她", "she", "he"),
    Person("他们", "they", "you"),
    Person("你爸爸", "your father", "he"),
    Person("你妈妈", "your mother", "he"),
    Person("你哥哥", "your older brother", "he"),
    Person("你姐姐", "your older sister", "he"),
    Person("你的朋友", "your friend", "he"),
    Person("小明", "Xiaoming", "he"),
    Person("小红", "Xiaohong", "he"),
]

COMPANY = [  # whom one does a thing with
    Person("我的朋友", "my friend", "he"),
    Person("我的老师", "my teacher", "he"),
    Person("我弟弟", "my younger brother", "he"),
    Person("我妹妹", "my younger sister", "he"),
    Person("小明", "Xiaoming", "he"),
    Person("小红", "Xiaohong", "he"),
]


class Meal(NamedTuple):
    """What is eaten or drunk."""

    chinese: str
    english: str
    verb: tuple[str, str]


EAT = ("吃", "eat")
DRINK = ("喝", "drink")
FOODS = [
    Meal("苹果", "apples", EAT),
    Meal("香蕉", "bananas", EAT),
    Meal("水果", "fruit", EAT),
    Meal("面条", "noodles", EAT),
    Meal("米饭", "rice", EAT),
    Meal("鱼", "fish", EAT),
    Meal("鸡蛋", "eggs", EAT),
    Meal("面包", "bread", EAT),
    Meal("牛肉", "beef", EAT),
    Meal("鸡肉", "chicken", EAT),
    Meal("饺子", "dumplings", EAT),
    Meal("蔬菜", "vegetables", EAT),
]
DRINKS = [
    Meal("水", "water", DRINK),
    Meal("茶", "tea", DRINK),
    Meal("咖啡", "coffee", DRINK),
    Meal("牛奶", "milk", DRINK),
    Meal("果汁", "juice", DRINK),
]
MEALS = {  # what is served when
    ("早饭", "breakfast"): ["面包", "鸡蛋", "水果", "苹果", "香蕉", "面条", "饺子"],
    ("午饭", "lunch"): ["米饭", "面条", "鱼", "鸡蛋", "牛肉", "鸡肉", "饺子", "蔬菜"],
    ("晚饭", "dinner"): ["米饭", "面条", "鱼", "牛肉", "鸡肉", "饺子", "蔬菜", "水果"],
}
SERVINGS = [  # measure word, its English singular and plural, what comes in it
    ("杯", "cup", "cups", [("茶", "tea"), ("咖啡", "coffee"), ("牛奶", "milk")]),
    ("杯", "glass", "glasses", [("水", "water"), ("果汁", "juice")]),
    (
        "碗",
        "bowl",
        "bowls",
        [("米饭", "rice"), ("面条", "noodles"), ("鱼汤", "fish soup"), ("鸡汤", "chicken soup")],
    ),
    ("瓶", "bottle", "bottles", [("水", "water"), ("果汁", "juice"), ("牛奶", "milk")]),
    (
        "盘",
        "plate",
        "plates",
        [("饺子", "dumplings"), ("蔬菜", "vegetables"), ("牛肉", "beef"), ("水果", "fruit")],
    ),
]


class Action(NamedTuple):
    """What people do: `now` is its object once ("a movie"), `always` in general ("movies")."""

    chinese: str
    verb: str
    now: str = ""
    always: str = ""


ACTIONS = [
    Action("做饭", "cook"),
    Action("看书", "read", "a book", "books"),
    Action("看电视", "watch", "TV", "TV"),
    Action("看电影", "watch", "a movie", "movies"),
    Action("听音乐", "listen", "to music", "to music"),
    Action("打篮球", "play", "basketball", "basketball"),
    Action("踢足球", "play", "soccer", "soccer"),
    Action("打网球", "play", "tennis", "tennis"),
    Action("弹钢琴", "play", "the piano", "the piano"),
    Action("下棋", "play", "chess", "chess"),
    Action("唱歌", "sing"),
    Action("跳舞", "dance"),
    Action("画画", "draw"),
    Action("拍照", "take", "photos", "photos"),
    Action("散步", "take", "a walk", "walks"),
    Action("跑步", "run"),
    Action("游泳", "swim"),
    Action("学习中文", "study", "Chinese", "Chinese"),
    Action("学习英文", "study", "English", "English"),
]
CHORES = [  # done, but not wished for
    Action("洗碗", "wash", "the dishes", "the dishes"),
    Action("洗衣服", "wash", "clothes", "clothes"),
    Action("打扫房间", "clean", "the room", "the room"),
]
SKILLS = ["做饭", "打篮球", "踢足球", "打网球", "弹钢琴", "下棋", "唱歌", "跳舞", "画画", "游泳"]
TOGETHER = [
    "看电视",
    "看电影",
    "听音乐",
    "打篮球",
    "踢足球",
    "打网球",
    "下棋",
    "唱歌",
    "散步",
    "跑步",
    "游泳",
]
DONE_AT = {  # where things are done
    ("在家", "at home"): [
        "做饭", "看书", "看电视", "看电影", "听音乐", "弹钢琴", "下棋", "画画", "学习中文", "洗碗", "洗衣服",
    ],
    ("在公园里", "in the park"): ["看书", "听音乐", "下棋", "唱歌", "跳舞", "画画", "拍照", "散步", "跑步"],
    ("在学校", "at school"): ["打篮球", "踢足球", "打网球", "唱歌", "跳舞", "学习中文", "学习英文", "看书", "画画"],
    ("在图书馆", "in the library"): ["看书", "学习中文", "学习英文"],
}  # fmt: skip


class Place(NamedTuple):
    """Where one goes: `english` follows "go"."""

    chinese: str
    english: str


PLACES = [
    Place("学校", "to school"),
    Place("公园", "to the park"),
    Place("医院", "to the hospital"),
    Place("超市", "to the supermarket"),
    Place("图书馆", "to the library"),
    Place("银行", "to the bank"),
    Place("书店", "to the bookstore"),
    Place("饭馆", "to the restaurant"),
    Place("火车站", "to the train station"),
    Place("机场", "to the airport"),
    Place("海边", "to the seaside"),
]
DAILY_PLACES = ["学校", "公园", "超市", "图书馆"]
FAR_PLACES = ["机场", "海边"]
CITIES = [
    ("北京", "Beijing"),
    ("上海", "Shanghai"),
    ("广州", "Guangzhou"),
    ("南京", "Nanjing"),
    ("成都", "Chengdu"),
]
WORKPLACES = [("银行", "a bank"), ("医院", "a hospital"), ("学校", "a school"), ("饭馆", "a restaurant"),
              ("书店", "a bookstore"), ("超市", "a supermarket"), ("图书馆", "a library")]  # fmt: skip
BY_BUS = [("坐公交车", "go", "by bus"), ("坐地铁", "go", "by subway"), ("坐出租车", "go", "by taxi")]
BY_ONESELF = [("骑自行车", "go", "by bike"), ("走路", "walk", "")]
BY_LAND_AND_AIR = [("坐火车", "by train"), ("坐飞机", "by plane")]

PAST_TIMES = [("昨天", "yesterday"), ("今天早上", "this morning"), ("上个星期", "last week")]
COMING_TIMES = [("明天", "tomorrow"), ("今天晚上", "this evening"), ("下个星期", "next week")]
HABITS = [("每天早上", "every morning"), ("每天晚上", "every evening"), ("每个周末", "every weekend")]


class Thing(NamedTuple):
    """What is counted with a measure word, and how it may be described."""

    chinese: str
    measure: str
    singular: str
    plural: str
    described: tuple[str, ...] = ()
    most: int = 5  # more than so many nobody buys or has

    @property
    def pair(self) -> str:
        """Shoes come in pairs: one counts "a pair of shoes", but speaks of "these shoes"."""
        return self.plural.removeprefix("pairs of ") if self.measure == "双" else ""


WORN = ("贵", "便宜", "漂亮", "大", "小", "干净")
MADE = ("贵", "便宜", "漂亮", "大", "小", "新", "旧")
THINGS = [
    Thing("书", "本", "book", "books", ("贵", "便宜", "有意思", "难", "新", "旧")),
    Thing("衬衫", "件", "shirt", "shirts", WORN),
    Thing("裙子", "条", "skirt", "skirts", WORN),
    Thing("鞋", "双", "pair of shoes", "pairs of shoes", WORN, 3),
    Thing("包", "个", "bag", "bags", MADE, 3),
    Thing("手机", "个", "phone", "phones", MADE, 2),
    Thing("电脑", "台", "computer", "computers", MADE, 2),
    Thing("椅子", "把", "chair", "chairs", MADE),
    Thing("桌子", "张", "table", "tables", MADE, 2),
    Thing("伞", "把", "umbrella", "umbrellas", MADE, 3),
    Thing("杯子", "个", "cup", "cups", ("贵", "便宜", "漂亮", "大", "小", "干净")),
    Thing("自行车", "辆", "bike", "bikes", MADE, 2),
    Thing("照片", "张", "photo", "photos", ("漂亮", "旧")),
    Thing("猫", "只", "cat", "cats", ("漂亮", "大", "小", "可爱"), 3),
    Thing("狗", "只", "dog", "dogs", ("漂亮", "大", "小", "可爱"), 3),
    Thing("苹果", "个", "apple", "apples", ("大", "小", "好吃", "便宜", "贵")),
    Thing("鸡蛋", "个", "egg", "eggs", ("大", "小")),
    Thing("蛋糕", "个", "cake", "cakes", ("大", "小", "好吃", "便宜", "贵"), 3),
]
OWNED = ["书", "衬衫", "裙子", "鞋", "包", "手机", "电脑", "伞", "自行车", "猫", "狗"]
BOUGHT = [
    "书",
    "衬衫",
    "裙子",
    "鞋",
    "包",
    "手机",
    "电脑",
    "椅子",
    "桌子",
    "伞",
    "杯子",
    "自行车",
    "苹果",
    "鸡蛋",
    "蛋糕",
]
COLOURED = ["衬衫", "裙子", "鞋", "包", "手机", "椅子", "桌子", "伞", "杯子", "自行车"]
PRICED = ["书", "衬衫", "裙子", "鞋", "包", "伞", "杯子", "椅子", "蛋糕"]
ADJECTIVES = {  # positive and comparative
    "贵": ("expensive", "more expensive"),
    "便宜": ("cheap", "cheaper"),
    "漂亮": ("beautiful", "more beautiful"),
    "大": ("big", "bigger"),
    "小": ("small", "smaller"),
    "干净": ("clean", "cleaner"),
    "新": ("new", "newer"),
    "旧": ("old", "older"),
    "有意思": ("interesting", "more interesting"),
    "难": ("difficult", "more difficult"),
    "可爱": ("cute", "cuter"),
    "好吃": ("delicious", "more delicious"),
}
TOO = {"贵", "大", "小", "旧", "难"}  # with the others, 太 would praise where "too" blames
COLOURS = [
    ("红色", "red"),
    ("白色", "white"),
    ("黑色", "black"),
    ("蓝色", "blue"),
    ("绿色", "green"),
    ("黄色", "yellow"),
]
SPOTS = {  # where things lie
    ("桌子上", "on the table"): ["书", "包", "手机", "电脑", "伞", "杯子", "照片", "猫", "苹果", "蛋糕"],
    ("椅子上", "on the chair"): ["书", "衬衫", "裙子", "包", "手机", "伞", "猫"],
    ("椅子下面", "under the chair"): ["书", "鞋", "包", "伞", "猫", "狗"],
    ("床下面", "under the bed"): ["书", "鞋", "包", "猫", "狗"],
    ("门后面", "behind the door"): ["鞋", "包", "伞", "椅子", "自行车", "猫", "狗"],
    ("包里", "in the bag"): ["书", "衬衫", "鞋", "手机", "伞", "杯子", "照片", "苹果"],
    ("房间里", "in the room"): ["椅子", "桌子", "电脑", "猫", "狗", "书"],
}
OWNERS = [("我的", "my"), ("你的", "your"), ("他的", "his"), ("她的", "her"), ("小明的", "Xiaoming's")]

WEATHER = [("冷", "cold"), ("热", "hot"), ("暖和", "warm"), ("凉快", "cool")]
FALLS = [("下雨", "rain"), ("下雪", "snow")]
SEASONS = {  # and how they may feel
    ("春天", "spring"): ["暖和", "凉快", "冷"],
    ("夏天", "summer"): ["热", "凉快"],
    ("秋天", "autumn"): ["凉快", "暖和"],
    ("冬天", "winter"): ["冷", "暖和"],
}
ROUTINES = {  # what is done every day at one of these hours
    ("起床", "get up"): [5, 6, 7, 8, 9],
    ("吃早饭", "have breakfast"): [6, 7, 8, 9],
    ("吃午饭", "have lunch"): [11, 12, 1],
    ("吃晚饭", "have dinner"): [5, 6, 7, 8],
    ("睡觉", "go to bed"): [8, 9, 10, 11, 12],
    ("上班", "go to work"): [6, 7, 8, 9, 10],
    ("回家", "go home"): [3, 4, 5, 6, 7, 8],
}
DIGITS = {1: "一", 2: "两", 3: "三", 4: "四", 5: "五", 6: "六", 7: "七", 8: "八", 9: "九", 10: "十", 11: "十一",
          12: "十二", 20: "二十", 30: "三十", 40: "四十", 50: "五十", 60: "六十", 70: "七十", 80: "八十",
          90: "九十", 100: "一百"}  # fmt: skip
