from tests.journeys.deadly.shop import define_shop

ShopActor = define_shop()
